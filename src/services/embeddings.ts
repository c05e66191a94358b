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
   * `write` builds the answer while its row is written to the ledger. The answer is returned when the row is durable. A long answer may
   * still be in progress then: the engine is free meanwhile.
   */
  embed<Answer>(
    call: InferenceCall,
    command: EmbeddingCommand,
    write: (result: EmbeddingResult, promptTokens: number) => Answer | Promise<Answer>,
  ): Promise<{ answer: Answer | Promise<Answer>; promptTokens: number }>;
}

/** Limits count four characters as a token until the engine has counted. */
const estimateTokens = (input: string | readonly number[]): number =>
  typeof input === 'string' ? Math.ceil(input.length / 4) + 2 : input.length + 2;

/** Engines add tokens of their own and report exact numbers; inputs this far above the limit are not sent to them. */
const HOPELESS_EXCESS = 2;

/** Just tokenizing such inputs would delay the requests of others. */
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
        // Awaited later, or never if the ledger write fails first: prevents an unhandled rejection.
        if (answer instanceof Promise) answer.catch(() => {});
        await settled;
        return { answer, promptTokens };
      });
    },
  };
}
