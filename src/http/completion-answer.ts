import type { TokenLogprob, TokenUsage } from '../engines/engine.ts';
import {
  type AnswerHead,
  type ChunkOptions,
  type ChunkWriter,
  type CollectedChoice,
  usageToWire,
} from './chat-answer.ts';

/** Wire shapes of the older text completions. */

function logprobsToWire(found: readonly TokenLogprob[]) {
  let offset = 0;
  const offsets = found.map(({ token }) => {
    const start = offset;
    offset += token.length;
    return start;
  });
  return {
    tokens: found.map(({ token }) => token),
    token_logprobs: found.map(({ logprob }) => logprob),
    top_logprobs: found.map(({ top }) => Object.fromEntries(top.map(({ token, logprob }) => [token, logprob]))),
    text_offset: offsets,
  };
}

/** These models call no tools here, so that is never the reason. */
const reasonOf = (reason: CollectedChoice['finishReason']): 'stop' | 'length' =>
  reason === 'length' ? 'length' : 'stop';

export function textCompletionToWire(
  head: AnswerHead,
  choices: readonly CollectedChoice[],
  usage: TokenUsage,
  withLogprobs: boolean,
) {
  return {
    id: head.id,
    object: 'text_completion' as const,
    created: head.created,
    model: head.model,
    choices: choices.map((choice, index) => ({
      index,
      text: choice.text,
      logprobs: withLogprobs ? logprobsToWire(choice.logprobs) : null,
      finish_reason: reasonOf(choice.finishReason),
    })),
    usage: usageToWire(usage),
  };
}

export function createTextChunkWriter(head: AnswerHead, options: ChunkOptions): ChunkWriter {
  const chunk = (choices: unknown[], usage: unknown) => {
    const common = { id: head.id, object: 'text_completion', created: head.created, model: head.model, choices };
    return `data: ${JSON.stringify(options.withUsage ? { ...common, usage } : common)}\n\n`;
  };
  return {
    event(index, event) {
      if (event.type === 'text-delta') {
        const logprobs = options.withLogprobs && event.logprobs !== undefined ? logprobsToWire(event.logprobs) : null;
        return chunk([{ index, text: event.text, logprobs, finish_reason: null }], null);
      }
      if (event.type === 'end')
        return chunk([{ index, text: '', logprobs: null, finish_reason: reasonOf(event.reason) }], null);
      return '';
    },
    usage: (usage) => chunk([], usageToWire(usage)),
  };
}
