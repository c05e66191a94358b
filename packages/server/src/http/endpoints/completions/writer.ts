import type { ChatEvent, TokenLogprob, TokenUsage } from '@baobab/core/engine/engine.ts';
import type { Static } from 'typebox';
import { ChoicesWriter, type CollectedChoice, usageToWire } from '../../generation/choices.ts';
import type { CompletionResponse } from './schema.ts';

/** `start` is the offset of the first token in the text. */
function logprobsToWire(found: readonly TokenLogprob[], start = 0) {
  let offset = start;
  const offsets = found.map(({ token }) => {
    const before = offset;
    offset += token.length;
    return before;
  });
  return {
    tokens: found.map(({ token }) => token),
    token_logprobs: found.map(({ logprob }) => logprob),
    top_logprobs: found.map(({ top }) => Object.fromEntries(top.map(({ token, logprob }) => [token, logprob]))),
    text_offset: offsets,
  };
}

/** Completions call no tools. */
const reasonOf = (reason: CollectedChoice['finishReason']): 'stop' | 'length' =>
  reason === 'length' ? 'length' : 'stop';

/** Writes completions of a text. */
export class TextWriter extends ChoicesWriter<Static<typeof CompletionResponse>> {
  /** Characters sent for each choice. */
  readonly #sent = new Map<number, number>();

  protected whole(choices: readonly CollectedChoice[], usage: TokenUsage) {
    const { id, created, model } = this.head;
    return {
      id,
      object: 'text_completion' as const,
      created,
      model,
      choices: choices.map((choice, index) => ({
        index,
        text: choice.text,
        logprobs: this.withLogprobs ? logprobsToWire(choice.logprobs) : null,
        finish_reason: reasonOf(choice.finishReason),
      })),
      usage: usageToWire(usage),
    };
  }

  protected chunk(index: number, event: ChatEvent): string {
    if (event.type === 'text-delta') {
      const start = this.#sent.get(index) ?? 0;
      this.#sent.set(index, start + event.text.length);
      const { logprobs: found } = event;
      const logprobs = this.withLogprobs && found !== undefined ? logprobsToWire(found, start) : null;
      return this.#write([{ index, text: event.text, logprobs, finish_reason: null }], null);
    }
    if (event.type === 'end') {
      return this.#write([{ index, text: '', logprobs: null, finish_reason: reasonOf(event.reason) }], null);
    }
    return '';
  }

  protected usageChunk(usage: TokenUsage): string {
    return this.#write([], usageToWire(usage));
  }

  #write(choices: unknown[], usage: unknown): string {
    const { id, created, model } = this.head;
    const common = { id, object: 'text_completion', created, model, choices };
    return `data: ${JSON.stringify(this.withUsage ? { ...common, usage } : common)}\n\n`;
  }
}
