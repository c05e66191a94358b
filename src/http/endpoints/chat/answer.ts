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
export const createChunkWriter = (head: AnswerHead, options: ChunkOptions): ChunkWriter =>
  new ChatChunkWriter(head, options);

class ChatChunkWriter implements ChunkWriter {
  readonly #before: string;
  readonly #withUsage: boolean;
  readonly #withLogprobs: boolean;
  /** The choices that have their first chunk, which has the role. */
  readonly #started = [false];

  constructor({ id, created, model }: AnswerHead, { withUsage, withLogprobs }: ChunkOptions) {
    this.#before = `data: {"id":${JSON.stringify(id)},"object":"chat.completion.chunk","created":${created},"model":${JSON.stringify(model)},"choices":[`;
    this.#withUsage = withUsage;
    this.#withLogprobs = withLogprobs;
  }

  event(index: number, event: ChatEvent): string {
    switch (event.type) {
      case 'start':
        return '';
      case 'text-delta': {
        const logprobs =
          this.#withLogprobs && event.logprobs !== undefined ? JSON.stringify(logprobsToWire(event.logprobs)) : 'null';
        return this.#opening(index) + this.#chunk(index, `{"content":${JSON.stringify(event.text)}}`, 'null', logprobs);
      }
      case 'reasoning-delta':
        return this.#opening(index) + this.#chunk(index, `{"reasoning_content":${JSON.stringify(event.text)}}`, 'null');
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
        return this.#opening(index) + this.#chunk(index, `{"tool_calls":[${JSON.stringify(call)}]}`, 'null');
      }
      case 'end':
        return this.#opening(index) + this.#chunk(index, '{}', `"${event.reason}"`);
    }
  }

  usage(usage: TokenUsage): string {
    return `${this.#before}],"usage":${JSON.stringify(usageToWire(usage))}}\n\n`;
  }

  #opening(index: number): string {
    if (this.#started[index]) return '';
    this.#started[index] = true;
    return this.#chunk(index, '{"role":"assistant","content":"","refusal":null}', 'null');
  }

  #chunk(index: number, delta: string, finish: string, logprobs = 'null'): string {
    const after = this.#withUsage ? '],"usage":null}\n\n' : ']}\n\n';
    return `${this.#before}{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${finish}}${after}`;
  }
}
