import type { ChatEvent, TokenLogprob, TokenUsage } from '../../../engines/engine.ts';
import {
  type AnswerHead,
  type ChunkOptions,
  type ChunkWriter,
  type CollectedChoice,
  usageToWire,
} from '../../generation/answer.ts';

const logprobToWire = ({ token, bytes, logprob, top }: TokenLogprob) => ({
  token,
  bytes: [...bytes],
  logprob,
  top_logprobs: top.map((each) => ({ token: each.token, bytes: [...each.bytes], logprob: each.logprob })),
});

const logprobsToWire = (found: readonly TokenLogprob[]) => ({
  content: found.map(logprobToWire),
  refusal: null,
});

export function completionToWire(
  head: AnswerHead,
  choices: readonly CollectedChoice[],
  usage: TokenUsage,
  withLogprobs: boolean,
) {
  return {
    id: head.id,
    object: 'chat.completion' as const,
    created: head.created,
    model: head.model,
    choices: choices.map((choice, index) => ({
      index,
      message: {
        role: 'assistant' as const,
        content: choice.text === '' && choice.toolCalls.length > 0 ? null : choice.text,
        refusal: null,
        ...(choice.reasoning === '' ? {} : { reasoning_content: choice.reasoning }),
        ...(choice.toolCalls.length === 0
          ? {}
          : {
              tool_calls: choice.toolCalls.map(({ id, name, arguments: text }) => ({
                id,
                type: 'function' as const,
                function: { name, arguments: text },
              })),
            }),
      },
      logprobs: withLogprobs ? logprobsToWire(choice.logprobs) : null,
      finish_reason: choice.finishReason,
    })),
    usage: usageToWire(usage),
  };
}

/** Writes the chunks of a chat stream. The parts that all chunks share are built once. */
export function createChunkWriter(head: AnswerHead, options: ChunkOptions): ChunkWriter {
  const before = `data: {"id":${JSON.stringify(head.id)},"object":"chat.completion.chunk","created":${head.created},"model":${JSON.stringify(head.model)},"choices":[`;
  const after = options.withUsage ? '],"usage":null}\n\n' : ']}\n\n';
  const chunk = (index: number, delta: string, finish: string, logprobs = 'null') =>
    `${before}{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${finish}}${after}`;
  const started = new Set<number>();

  /** The first chunk of a choice has the role. */
  function opening(index: number): string {
    if (started.has(index)) return '';
    started.add(index);
    return chunk(index, '{"role":"assistant","content":"","refusal":null}', 'null');
  }

  return {
    event(index: number, event: ChatEvent): string {
      switch (event.type) {
        case 'start':
          return '';
        case 'text-delta': {
          const logprobs =
            options.withLogprobs && event.logprobs !== undefined
              ? JSON.stringify(logprobsToWire(event.logprobs))
              : 'null';
          return opening(index) + chunk(index, `{"content":${JSON.stringify(event.text)}}`, 'null', logprobs);
        }
        case 'reasoning-delta':
          return opening(index) + chunk(index, `{"reasoning_content":${JSON.stringify(event.text)}}`, 'null');
        case 'tool-call-delta': {
          const call =
            event.id === undefined
              ? { index: event.index, function: { arguments: event.argumentsDelta } }
              : {
                  index: event.index,
                  id: event.id,
                  type: 'function',
                  function: { name: event.name ?? '', arguments: event.argumentsDelta },
                };
          return opening(index) + chunk(index, `{"tool_calls":[${JSON.stringify(call)}]}`, 'null');
        }
        case 'end':
          return opening(index) + chunk(index, '{}', `"${event.reason}"`);
      }
    },
    usage: (usage: TokenUsage): string => `${before}],"usage":${JSON.stringify(usageToWire(usage))}}\n\n`,
  };
}
