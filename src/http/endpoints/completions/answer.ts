import type { TokenLogprob, TokenUsage } from '../../../engines/engine.ts';
import {
  type AnswerHead,
  type ChunkOptions,
  type ChunkWriter,
  type CollectedChoice,
  usageToWire,
} from '../../generation/answer.ts';

/** `start` is the offset of the first token in the text. */
function logprobsToWire(found: readonly TokenLogprob[], start = 0) {
  let offset = start;
  const offsets = found.map(({ token }) => {
    const place = offset;
    offset += token.length;
    return place;
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
  /** Characters sent for each choice. */
  const sent = new Map<number, number>();
  return {
    event(index, event) {
      if (event.type === 'text-delta') {
        const start = sent.get(index) ?? 0;
        sent.set(index, start + event.text.length);
        const { logprobs: found } = event;
        const logprobs = options.withLogprobs && found !== undefined ? logprobsToWire(found, start) : null;
        return chunk([{ index, text: event.text, logprobs, finish_reason: null }], null);
      }
      if (event.type === 'end')
        return chunk([{ index, text: '', logprobs: null, finish_reason: reasonOf(event.reason) }], null);
      return '';
    },
    usage: (usage) => chunk([], usageToWire(usage)),
  };
}
