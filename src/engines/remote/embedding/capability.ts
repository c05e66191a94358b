import { ApiError } from '../../../errors/api-error.ts';
import { errors } from '../../../errors/errors.ts';
import type { CallContext, EmbeddingCapability, EmbeddingRequest, EmbeddingResult } from '../../engine.ts';
import { malformedAnswer, UpstreamFailure } from '../failure.ts';
import { type RemoteScope, scopeAt } from '../remote-scope.ts';
import type { Lease } from '../routing/lease.ts';
import { toApiError } from '../routing/router.ts';
import { halve, inPieces, learnInputLimit, type Piece, shareTokens } from '../split-inputs.ts';
import { countAtUpstream } from '../token-count.ts';
import { type Embedded, embeddingDialect } from './dialects.ts';

export interface RemoteEmbeddingResult extends EmbeddingResult {
  servedRegion: string | undefined;
}
export interface RemoteEmbedding extends EmbeddingCapability {
  embed(request: EmbeddingRequest, context: CallContext): Promise<RemoteEmbeddingResult>;
}

type Input = EmbeddingRequest['inputs'][number];

export function createRemoteEmbedding(remote: RemoteScope): RemoteEmbedding {
  /** Gives back undefined when the address takes less at a time. */
  const embedPiece = async ({ start, items }: Piece<Input>, lease: Lease): Promise<Embedded | undefined> => {
    const scope = scopeAt(remote, lease, items.length === 1 ? `input[${start}]` : 'input');
    const dialect = embeddingDialect(lease.upstream);
    try {
      const { json, headers } = await lease.sendForJson({ ...dialect.request(items), scope });
      const embedded = dialect.read(json, headers, items.length);
      if (embedded === undefined) throw malformedAnswer('these are not the vectors that were asked for', scope);
      return embedded;
    } catch (error) {
      if (!(error instanceof UpstreamFailure) || items.length === 1) throw error;
      if (error.kind === 'too-many') {
        learnInputLimit(lease.upstream, error);
        return undefined;
      }
      if (error.apiError.code === 'context_length_exceeded')
        throw await nameTooLong(remote, { start, items }, lease, error);
      throw error;
    }
  };

  return {
    async embed({ inputs, dimensions }, context) {
      const tokens = new Array<number>(inputs.length);
      let vectors: Float32Array = new Float32Array(0);
      let kept = 0;
      let servedRegion: string | undefined;

      const store = (piece: Piece<Input>, embedded: Embedded): void => {
        const width = embedded.vectors[0]?.length ?? 0;
        if (kept === 0) {
          if (dimensions !== undefined && dimensions > width) throw tooManyDimensions(dimensions, width);
          kept = dimensions ?? width;
          // One alone stays where it was read. Memory of its own for each would have to be given back one by one, while everybody waits.
          const [only] = inputs.length === 1 ? embedded.vectors : [];
          vectors = only?.subarray(0, kept) ?? new Float32Array(inputs.length * kept);
        }
        if (width < kept) throw malformedAnswer('vectors of different lengths', remote);
        for (const [i, vector] of embedded.vectors.entries()) {
          // Cut here rather than there: every upstream can give whole vectors, not every one can shorten them.
          const place = vectors.subarray((piece.start + i) * kept, (piece.start + i + 1) * kept);
          if (!normalizeInto(place, vector)) throw malformedAnswer('a vector has parts that are no numbers', remote);
        }
        shareTokens(embedded.tokens, piece, tokens);
      };

      try {
        await inPieces(remote, inputs, context, async (piece, pieceContext) => {
          const [embedded, lease] = await remote.router.call(pieceContext, remote.region, (lent) =>
            embedPiece(piece, lent),
          );
          if (embedded === undefined) return halve(piece, lease.upstream.learned.maxInputsPerCall);
          store(piece, embedded);
          servedRegion = lease.upstream.region;
          return [];
        });
      } catch (error) {
        throw toApiError(error);
      }
      return { vectors, dimensions: kept, tokens, servedRegion };
    },
  };
}

const tooManyDimensions = (asked: number, width: number) =>
  errors.unsupportedParameter('dimensions', `This model's vectors have ${width} dimensions; ${asked} were asked for.`);

/** As much of the vector as there is place for, with unit length; false when that has parts that are no numbers. */
function normalizeInto(place: Float32Array, vector: Float32Array): boolean {
  const { length } = place;
  let sum = 0;
  for (let i = 0; i < length; i++) {
    const part = vector[i] as number;
    sum += part * part;
  }
  if (!Number.isFinite(sum)) return false;
  const scale = sum > 0 ? 1 / Math.sqrt(sum) : 1;
  for (let i = 0; i < length; i++) place[i] = (vector[i] as number) * scale;
  return true;
}

/** Upstreams say that something is too long, but not what; the client shall know which input it is. */
async function nameTooLong(
  remote: RemoteScope,
  { start, items }: Piece<Input>,
  lease: Lease,
  failure: UpstreamFailure,
): Promise<Error> {
  const { message, param } = failure.apiError;
  // Another Baobab names the input by its place in our call.
  const told = /^input\[(\d+)\]$/.exec(param ?? '')?.[1];
  if (told !== undefined) {
    const place = `input[${start + Number(told)}]`;
    return new ApiError('context_length_exceeded', message.replaceAll(`input[${told}]`, place), { field: place });
  }
  const texts = items.map((item) => (typeof item === 'string' ? item : ''));
  const counts = await countAtUpstream(lease, texts, scopeAt(remote, lease, 'input')).catch(() => undefined);
  const sizes = items.map((item, i) => (typeof item === 'string' ? (counts?.[i] ?? 0) : item.length));
  const longest = sizes.findIndex((size) => size > remote.contextLength);
  if (longest !== -1)
    return errors.contextTooLong(`input[${start + longest}]`, sizes[longest] ?? 0, remote.contextLength);
  // TEI does not even count a text that has too many characters.
  const maxCharacters = Number(/less than (\d+) characters/.exec(failure.detail)?.[1] ?? Infinity);
  const at = texts.findIndex((text) => text.length >= maxCharacters);
  if (at === -1) return failure;
  const place = `input[${start + at}]`;
  return new ApiError('context_length_exceeded', message.replace("'input'", `'${place}'`), { field: place });
}
