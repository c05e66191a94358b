import { mayBeCut } from '@baobab/core/domain/text-size.ts';
import type {
  CallContext,
  EmbeddingCapability,
  EmbeddingInput,
  EmbeddingRequest,
  EmbeddingResult,
  Truncation,
} from '@baobab/core/engine/engine.ts';
import { cutTokens, tokenLimit } from '@baobab/core/engine/truncation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { type Embedded, truncatedIn } from './answer-fields.ts';
import type { Cut } from './dialects/dialect.ts';
import { malformedAnswer, type UpstreamFailure } from './failure/failure.ts';
import type { Route } from './routing/router.ts';
import type { Upstream } from './routing/upstream.ts';
import type { UpstreamCall } from './routing/upstream-call.ts';
import {
  callWithSlice,
  cutsTooLong,
  divideTokens,
  halve,
  type InputSlice,
  mostTokensOf,
  possibleTokens,
  runSplit,
  sendCut,
} from './split-inputs.ts';
import { countAtUpstream } from './token-counts.ts';

export interface RemoteEmbeddingResult extends EmbeddingResult {
  servedRegion: string | undefined;
}
export interface RemoteEmbedding extends EmbeddingCapability {
  embed(request: EmbeddingRequest, context: CallContext): Promise<RemoteEmbeddingResult>;
}

type Slice = InputSlice<EmbeddingRequest['inputs'][number]>;

export function createRemoteEmbedding(route: Route): RemoteEmbedding {
  const embedSlice = (slice: Slice, call: UpstreamCall, cut: Cut, limit: number) => {
    const { start, items } = slice;
    const { dialect } = call.upstream;
    const field = items.length === 1 ? ['inputs', start] : ['inputs'];
    const send = async (extra?: object) => {
      const answer = await call.fetchJson({ ...requestFor(items, call.upstream, field, extra), field });
      const embedded = dialect.readEmbeddings(answer, items.length);
      if (embedded === undefined) throw call.malformed('the answer lacks the vectors that were asked for');
      const tokens = possibleTokens(embedded.tokens, call, {
        surely: fewestOfMost(items, limit),
        most: () => mostTokensOf(items, limit),
      });
      return { ...embedded, tokens, truncated: truncatedIn(answer.headers) };
    };
    const long = cut.truncation ? items.filter((item) => typeof item === 'string' && mayBeCut(item, limit)) : [];
    const count = async () => (await sizesAt(call, long))?.filter((size) => size > limit).length;
    return callWithSlice({
      slice,
      call,
      send: () =>
        long.length === 0
          ? send()
          : sendCut({ call, cut, limit, items: items.length, longItems: long.length, send, count }),
      findTooLong: cutsTooLong(call.upstream, cut)
        ? undefined
        : (failure) => findTooLongInput(slice, call, failure, route.contextLength),
    });
  };

  return {
    async embed({ inputs: sent, dimensions, truncation }, context) {
      const limit = tokenLimit(truncation ?? { side: 'end' }, route.contextLength);
      const cut = {
        truncation: truncation && { ...truncation, maxTokens: limit < route.contextLength ? limit : undefined },
      };
      // Not all upstreams can, and those that can differ in how.
      const inputs = truncation === undefined ? sent : sent.map((input) => withIdsCut(input, limit, truncation));
      let truncated = inputs.filter((input, index) => input !== sent[index]).length;
      const tokens = new Array<number>(inputs.length);
      let vectors: Float32Array = new Float32Array(0);
      let kept = 0;
      let servedRegion: string | undefined;

      const store = (slice: Slice, embedded: Embedded): void => {
        const width = embedded.vectors[0]?.length ?? 0;
        if (kept === 0) {
          if (dimensions !== undefined && dimensions > width) throw tooManyDimensions(dimensions, width);
          kept = dimensions ?? width;
          // A single vector stays in the memory it was read into: freeing one allocation for each would block the event loop.
          const [only] = inputs.length === 1 ? embedded.vectors : [];
          vectors = only?.subarray(0, kept) ?? new Float32Array(inputs.length * kept);
        }
        if (width < kept) throw malformedAnswer('the vectors have different lengths', route.slug).apiError;
        for (const [i, vector] of embedded.vectors.entries()) {
          // Shortened here: every upstream can send whole vectors, not every one can shorten them.
          const target = vectors.subarray((slice.start + i) * kept, (slice.start + i + 1) * kept);
          if (!normalizeInto(target, vector)) {
            throw malformedAnswer('a vector has parts that are not numbers', route.slug).apiError;
          }
        }
        divideTokens(embedded.tokens, slice, { tokens, limit });
      };

      await runSplit(inputs, route.maxInputsPerCall(), context, async (slice, sliceContext) => {
        const [embedded, upstream] = await route.run(sliceContext, (call) => embedSlice(slice, call, cut, limit));
        if (embedded === undefined) return halve(slice, upstream.learned.maxInputsPerCall);
        store(slice, embedded);
        truncated += embedded.truncated ?? 0;
        servedRegion = upstream.region;
        return [];
      });
      return { vectors, dimensions: kept, tokens, truncated, servedRegion };
    },
  };
}

/** Without looking at the texts: no text can have fewer bytes than this. */
const fewestOfMost = (items: Slice['items'], limit: number): number =>
  items.reduce<number>((sum, item) => sum + Math.min(typeof item === 'string' ? item.length : 1, limit), 0);

const withIdsCut = (input: EmbeddingInput, limit: number, { side }: Truncation): EmbeddingInput =>
  Array.isArray(input) && input.length > limit ? [...cutTokens(Int32Array.from(input), limit, side)] : input;

/** An image is sent alone. */
function requestFor(inputs: Slice['items'], { dialect, model }: Upstream, field: FieldPath, extra?: object) {
  const [first] = inputs;
  if (typeof first !== 'object' || !('url' in first)) return dialect.embeddingRequest(inputs, model, extra);
  if (dialect.imageRequest !== undefined) return dialect.imageRequest(first, model);
  throw errors.unsupportedParameter(field, 'The server that runs this model does not embed images.');
}

/** The tokens of each input, as far as they are known. Undefined: the upstream cannot count them. */
async function sizesAt(call: UpstreamCall, items: Slice['items']): Promise<number[] | undefined> {
  const texts = items.map((item) => (typeof item === 'string' ? item : ''));
  const counts = await countAtUpstream(call, texts, ['inputs']).catch(() => undefined);
  return counts && items.map((item, i) => (Array.isArray(item) ? item.length : (counts[i] ?? 0)));
}

/** Counts the tokens of the inputs at the upstream, and returns an error that names the one that is too long. */
async function findTooLongInput(
  { start, items }: Slice,
  call: UpstreamCall,
  failure: UpstreamFailure,
  contextLength: number,
): Promise<Error | undefined> {
  const sizes = (await sizesAt(call, items)) ?? items.map((item) => (Array.isArray(item) ? item.length : 0));
  const tooLong = sizes.findIndex((size) => size > contextLength);
  if (tooLong !== -1) return errors.contextTooLong(['inputs', start + tooLong], sizes[tooLong] ?? 0, contextLength);
  // TEI does not count a text that has too many characters.
  const maxCharacters = Number(/less than (\d+) characters/.exec(failure.detail)?.[1] ?? Infinity);
  const at = items.findIndex((item) => typeof item === 'string' && item.length >= maxCharacters);
  return at === -1 ? undefined : failure.apiError.mapFields(() => ['inputs', start + at]);
}

const tooManyDimensions = (asked: number, width: number) =>
  errors.unsupportedParameter(
    ['dimensions'],
    `This model's vectors have ${width} dimensions; ${asked} were asked for.`,
  );

/** Fills `target` with the start of the vector, scaled to unit length. Returns false if a part is not a number. */
function normalizeInto(target: Float32Array, vector: Float32Array): boolean {
  const { length } = target;
  let sum = 0;
  for (let i = 0; i < length; i++) {
    const part = vector[i] as number;
    sum += part * part;
  }
  if (!Number.isFinite(sum)) return false;
  const scale = sum > 0 ? 1 / Math.sqrt(sum) : 1;
  for (let i = 0; i < length; i++) target[i] = (vector[i] as number) * scale;
  return true;
}
