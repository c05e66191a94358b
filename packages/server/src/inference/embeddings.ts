import { MAX_IMAGE_TOKENS, UNKNOWN_IMAGE_TOKENS } from '@baobab/core/domain/image.ts';
import type { ModelEntry } from '@baobab/core/domain/model.ts';
import {
  isHopelesslyLong,
  mostInputTokens,
  mostTokens,
  reservedTokens,
  worthTokenizing,
} from '@baobab/core/domain/text-size.ts';
import type { EmbeddingInput, EmbeddingResult, ImageInput, Truncation } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { InferenceCall } from './call.ts';
import { type CheckedImage, checkVision, type ImageReference, type ImagesService } from './inputs/images.ts';
import type { Bounds, InferenceService } from './pipeline.ts';
import { type AskedTruncation, truncationFor } from './truncation.ts';

const MAX_EMBEDDING_INPUTS = 2048;

/** Text, token ids, or an image. */
type CommandInput = string | readonly number[] | ImageReference;

const isImage = (input: CommandInput): input is ImageReference => typeof input === 'object' && 'source' in input;

export interface EmbeddingCommand {
  model: string;
  inputs: readonly CommandInput[];
  dimensions: number | undefined;
  truncation?: AskedTruncation;
}

export interface EmbeddingsService {
  /**
   * `write` builds the answer while its row is written to the ledger. The answer is returned when the row is durable. A long answer may
   * still be in progress then: the engine is free meanwhile.
   */
  embed<Answer>(
    call: InferenceCall,
    command: EmbeddingCommand,
    write: (result: EmbeddingResult, promptTokens: number) => Answer | Promise<Answer>,
  ): Promise<{ answer: Answer | Promise<Answer> }>;
}

/** With the two special tokens that most encoders add. No input uses more than the limit: the context, or where it is cut. */
const reservedInputTokens = (input: Exclude<CommandInput, ImageReference>, limit: number): number =>
  Math.min(typeof input === 'string' ? reservedTokens(input) + 2 : input.length, limit);

const mostTokensOf = (input: Exclude<CommandInput, ImageReference>, limit: number): number =>
  mostInputTokens(typeof input === 'string' ? mostTokens(input) : input.length, limit);

/** Engines add tokens of their own and report exact numbers; inputs this far above the limit are not sent to them. */
const HOPELESS_EXCESS = 2;

/** Just tokenizing such inputs would delay the requests of others. */
function refuseTooLong(inputs: EmbeddingCommand['inputs'], contextLength: number): void {
  inputs.forEach((input, index) => {
    if (isImage(input)) return;
    if (typeof input === 'string') {
      if (isHopelesslyLong(input.length, contextLength))
        throw errors.contextFarTooLong(['inputs', index], contextLength);
    } else if (input.length > contextLength * HOPELESS_EXCESS) {
      throw errors.contextTooLong(['inputs', index], input.length, contextLength);
    }
  });
}

/** An engine counts those that are shortened here too, unless they are little but white space. */
const worthReading = (inputs: EmbeddingCommand['inputs'], { side }: Truncation, contextLength: number) =>
  inputs.map((input) => (typeof input === 'string' ? worthTokenizing(input, contextLength, side) : input));

function checkDimensions({ slug, truncation, dimensions: full }: ModelEntry, wanted: number | undefined): void {
  if (wanted === undefined) return;
  if (!truncation && wanted !== full) {
    throw errors.unsupportedParameter(
      ['dimensions'],
      fieldText`The model '${slug}' gives vectors of ${String(full)} dimensions only; leave ${['dimensions']} out.`,
    );
  }
  if (full !== null && wanted > full) {
    throw errors.unsupportedParameter(
      ['dimensions'],
      fieldText`${['dimensions']} is ${wanted}, but the model '${slug}' has only ${full}.`,
    );
  }
}

/** The inputs with the content of the images, which come in the same order. */
function withImages(inputs: readonly CommandInput[], images: readonly ImageInput[]): EmbeddingInput[] {
  let next = 0;
  return inputs.map((input) => (isImage(input) ? (images[next++] as ImageInput) : input));
}

export interface EmbeddingsDependencies {
  inference: Pick<InferenceService, 'run'>;
  images: ImagesService;
}

export function createEmbeddings({ inference, images }: EmbeddingsDependencies): EmbeddingsService {
  return {
    embed(call, { model, inputs: sent, dimensions, truncation: asked }, write) {
      let inputs = sent;
      let truncation: Truncation | undefined;
      let shortened = 0;
      let checked: readonly CheckedImage[] = [];
      let loaded: readonly ImageInput[] = [];

      const boundsOf = ({ contextLength }: ModelEntry): Bounds => {
        const limit = Math.min(truncation?.maxTokens ?? contextLength, contextLength);
        let tokens = 0;
        let promptTokens = 0;
        let images = 0;
        for (const input of inputs) {
          if (isImage(input)) images += 1;
          else {
            tokens += reservedInputTokens(input, limit);
            promptTokens += mostTokensOf(input, limit);
          }
        }
        if (checked.length === 0) tokens += images * UNKNOWN_IMAGE_TOKENS;
        for (const image of checked) tokens += image.tokens;
        return { tokens, most: { promptTokens: promptTokens + images * MAX_IMAGE_TOKENS } };
      };

      const readImages = async (references: readonly ImageReference[]): Promise<Disposable> => {
        const accountId = call.principal.account.id;
        checked = await images.check(accountId, references);
        const found = await images.load(accountId, checked);
        loaded = found.inputs;
        return found;
      };

      return inference.run(call, {
        modality: 'embedding',
        model,

        bound({ entry }) {
          if (inputs.length > MAX_EMBEDDING_INPUTS)
            throw errors.tooManyInputs(['inputs'], inputs.length, MAX_EMBEDDING_INPUTS);
          truncation = truncationFor(call, entry, asked);
          if (truncation === undefined) refuseTooLong(inputs, entry.contextLength);
          else inputs = worthReading(sent, truncation, entry.contextLength);
          shortened = inputs.filter((input, index) => input !== sent[index]).length;
          checkDimensions(entry, dimensions);
          checkVision(entry, inputs.filter(isImage));
          return boundsOf(entry);
        },

        read() {
          const references = inputs.filter(isImage);
          return references.length === 0 ? undefined : readImages(references);
        },

        async run(session) {
          const embedding = session.capability('embedding');
          const request = { inputs: withImages(inputs, loaded), dimensions, truncation };
          const result = await embedding.embed(request, session.context);
          if (truncation !== undefined) call.observer?.truncated?.(Math.max(result.truncated ?? 0, shortened));
          const tokens = result.tokens.reduce((sum, count) => sum + count, 0);
          const settled = session.settle({ promptTokens: tokens }, { region: result.servedRegion });
          const answer = write(result, session.billed?.promptTokens ?? tokens);
          // Awaited later, or never if the ledger write fails first: prevents an unhandled rejection.
          if (answer instanceof Promise) answer.catch(() => {});
          await settled;
          return { answer };
        },
      });
    },
  };
}
