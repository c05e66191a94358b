import { isHopelesslyLong } from '../domain/text-size.ts';
import type { EmbeddingResult } from '../engines/engine.ts';
import { errors } from '../errors/errors.ts';
import { fieldText } from '../errors/fields.ts';
import type { InferenceCall, InferenceService } from './inference.ts';

export const MAX_EMBEDDING_INPUTS = 2048;

export interface EmbeddingCommand {
  model: string;
  inputs: readonly (string | readonly number[])[];
  dimensions: number | undefined;
}

export interface EmbeddingsService {
  /**
   * `write` makes the answer while its row is on the way to the ledger; the answer is given when the row is durable. A long answer may
   * still be being written then: its engine is free meanwhile.
   */
  embed<Answer>(
    call: InferenceCall,
    command: EmbeddingCommand,
    write: (result: EmbeddingResult, promptTokens: number) => Answer | Promise<Answer>,
  ): Promise<{ answer: Answer | Promise<Answer>; promptTokens: number }>;
}

/** Four characters to a token is what limits are charged until the engine has counted. */
const estimateTokens = (input: string | readonly number[]): number =>
  typeof input === 'string' ? Math.ceil(input.length / 4) + 2 : input.length + 2;

/** An engine adds tokens of its own and says the exact number; what is so far above the limit need not travel there. */
const HOPELESS_EXCESS = 2;

/** Only to read such inputs would keep an engine from the requests of others. */
function refuseTooLong(inputs: EmbeddingCommand['inputs'], contextLength: number): void {
  inputs.forEach((input, index) => {
    if (typeof input === 'string') {
      if (isHopelesslyLong(input.length, contextLength))
        throw errors.contextFarTooLong(['inputs', index], contextLength);
    } else if (input.length > contextLength * HOPELESS_EXCESS) {
      throw errors.contextTooLong(['inputs', index], input.length, contextLength);
    }
  });
}

export function createEmbeddings({ inference }: { inference: InferenceService }): EmbeddingsService {
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
      const tokens = inputs.reduce((sum, input) => sum + estimateTokens(input), 0);
      const estimate = { tokens, used: { promptTokens: tokens } };
      return inference.run(call, { model, estimate }, async ({ engine, context, settle }) => {
        if (engine.embedding === undefined) throw errors.modelUnavailable(model.entry.slug, 'its engine cannot embed');
        const result = await engine.embedding.embed({ inputs, dimensions }, context);
        const promptTokens = result.tokens.reduce((sum, tokens) => sum + tokens, 0);
        const settled = settle({ promptTokens }, { region: result.servedRegion });
        const answer = write(result, promptTokens);
        // Its failure is told by whoever awaits it, which may be later, or nobody when the row fails first.
        if (answer instanceof Promise) answer.catch(() => {});
        await settled;
        return { answer, promptTokens };
      });
    },
  };
}
