import { estimateTokens, isHopelesslyLong } from '@baobab/core/domain/text-size.ts';
import type { EmbeddingInput, EmbeddingResult, ImageInput } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { CheckedImage, ImageReference, ImagesService } from './inputs/images.ts';
import type { InferenceCall, InferenceService } from './pipeline.ts';

const MAX_EMBEDDING_INPUTS = 2048;

/** Text, token ids, or an image. */
type CommandInput = string | readonly number[] | ImageReference;

const isImage = (input: CommandInput): input is ImageReference => typeof input === 'object' && 'source' in input;

export interface EmbeddingCommand {
  model: string;
  inputs: readonly CommandInput[];
  dimensions: number | undefined;
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
  ): Promise<{ answer: Answer | Promise<Answer>; promptTokens: number }>;
}

/** With the two special tokens that most encoders add. No input uses more than the context. */
const estimateInputTokens = (input: Exclude<CommandInput, ImageReference>, contextLength: number): number =>
  Math.min((typeof input === 'string' ? estimateTokens(input) : input.length) + 2, contextLength);

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

/** The inputs with the content of the images, which come in the same order. */
async function withImages(inputs: readonly CommandInput[], images: readonly CheckedImage[]): Promise<EmbeddingInput[]> {
  const loaded = await Promise.all(images.map(({ load }) => load()));
  let next = 0;
  return inputs.map((input) => (isImage(input) ? (loaded[next++] as ImageInput) : input));
}

export interface EmbeddingsDependencies {
  inference: InferenceService;
  images: ImagesService;
}

export function createEmbeddings({ inference, images }: EmbeddingsDependencies): EmbeddingsService {
  return {
    async embed(call, { model: reference, inputs, dimensions }, write) {
      const model = inference.resolve(call, reference, 'embedding');
      if (inputs.length > MAX_EMBEDDING_INPUTS)
        throw errors.tooManyInputs(['inputs'], inputs.length, MAX_EMBEDDING_INPUTS);
      const { contextLength } = model.entry;
      refuseTooLong(inputs, contextLength);
      if (dimensions !== undefined) {
        const { slug, truncation, dimensions: full } = model.entry;
        if (!truncation && dimensions !== full) {
          throw errors.unsupportedParameter(
            ['dimensions'],
            fieldText`The model '${slug}' gives vectors of ${String(full)} dimensions only; leave ${['dimensions']} out.`,
          );
        }
        if (full !== null && dimensions > full) {
          throw errors.unsupportedParameter(
            ['dimensions'],
            fieldText`${['dimensions']} is ${dimensions}, but the model '${slug}' has only ${full}.`,
          );
        }
      }
      const references = inputs.filter(isImage);
      const [image] = references;
      if (image !== undefined && !model.entry.capabilities.vision) {
        throw errors.unsupportedParameter(image.field, `The model '${model.entry.slug}' takes text only, no images.`);
      }
      const checked = image === undefined ? [] : await images.check(call.principal.account.id, references);
      const tokens = inputs.reduce<number>(
        (sum, input) => sum + (isImage(input) ? 0 : estimateInputTokens(input, contextLength)),
        checked.reduce((sum, { tokens: each }) => sum + each, 0),
      );
      const estimate = { tokens, used: { promptTokens: tokens } };
      return inference.run(call, { model, estimate }, async (session) => {
        const { engine, context } = session;
        const { embedding } = engine;
        if (embedding === undefined) throw errors.modelUnavailable(model.entry.slug, 'its engine cannot embed');
        const embed = async () => embedding.embed({ inputs: await withImages(inputs, checked), dimensions }, context);
        const result = await (checked.length === 0 ? embed() : images.hold(call.principal.account.id, checked, embed));
        const promptTokens = result.tokens.reduce((sum, tokens) => sum + tokens, 0);
        const settled = session.settle({ promptTokens }, { region: result.servedRegion });
        const answer = write(result, promptTokens);
        // Awaited later, or never if the ledger write fails first: prevents an unhandled rejection.
        if (answer instanceof Promise) answer.catch(() => {});
        await settled;
        return { answer, promptTokens };
      });
    },
  };
}
