import type { ChatEvent, TokenLogprob } from '@baobab/core/engine/engine.ts';
import {
  CustomCallItem,
  FunctionCallItem,
  type ItemEvent,
  MessageItem,
  type OutputItem,
  ReasoningItem,
  type ReasoningOptions,
} from './open-items.ts';

export interface ItemsOptions extends ReasoningOptions {
  /** Ids of items: `msg_<part>_<index>`. They name the response that holds them. */
  idPart: string;
  customTools: ReadonlySet<string>;
  withLogprobs: boolean;
}

/** Builds the output items of a response from the events of a chat, and the stream events that describe them. */
export class OutputItems {
  readonly output: OutputItem[] = [];
  readonly #options: ItemsOptions;
  #text: MessageItem | ReasoningItem | undefined;
  /** Calls stay open until the end: some servers write several at once. */
  readonly #calls = new Map<number, FunctionCallItem | CustomCallItem>();

  constructor(options: ItemsOptions) {
    this.#options = options;
  }

  take(event: ChatEvent): ItemEvent[] {
    switch (event.type) {
      case 'text-delta':
        return this.#writeMessage(event.text, event.logprobs);
      case 'reasoning-delta':
        return this.#writeReasoning(event.text);
      case 'tool-call-delta': {
        const events = this.#closeText('completed');
        let call = this.#calls.get(event.index);
        if (call === undefined) {
          call = this.#addCall(event.id ?? '', event.name ?? '');
          this.#calls.set(event.index, call);
          events.push(...call.open());
        }
        return [...events, ...call.append(event.argumentsDelta)];
      }
      default:
        return [];
    }
  }

  /** Closes what is open. Only the last item can be incomplete. */
  end(status: 'completed' | 'incomplete'): ItemEvent[] {
    return [...this.#closeText(status), ...this.#closeCalls(status)];
  }

  #writeMessage(delta: string, logprobs: readonly TokenLogprob[] | undefined): ItemEvent[] {
    if (this.#text instanceof MessageItem) return this.#text.append(delta, logprobs);
    const item = this.#add('msg', 'message', { role: 'assistant', content: [] });
    const message = new MessageItem(item, this.output.length - 1, this.#options);
    return [...this.#begin(message), ...message.append(delta, logprobs)];
  }

  #writeReasoning(delta: string): ItemEvent[] {
    if (this.#text instanceof ReasoningItem) return this.#text.append(delta);
    const item = this.#add('rs', 'reasoning', { summary: [], content: [] });
    const reasoning = new ReasoningItem(item, this.output.length - 1, this.#options);
    return [...this.#begin(reasoning), ...reasoning.append(delta)];
  }

  #addCall(callId: string, name: string): FunctionCallItem | CustomCallItem {
    const isCustom = this.#options.customTools.has(name);
    const item = isCustom
      ? this.#add('ctc', 'custom_tool_call', { call_id: callId, name, input: '' })
      : this.#add('fc', 'function_call', { call_id: callId, name, arguments: '' });
    const index = this.output.length - 1;
    return isCustom ? new CustomCallItem(item, index) : new FunctionCallItem(item, index);
  }

  #add(prefix: string, type: string, fields: object): OutputItem {
    const id = `${prefix}_${this.#options.idPart}_${this.output.length}`;
    const item: OutputItem = { type, id, status: 'in_progress', ...fields };
    this.output.push(item);
    return item;
  }

  /** Closes the items before it. */
  #begin(item: MessageItem | ReasoningItem): ItemEvent[] {
    const events = [...this.#closeText('completed'), ...this.#closeCalls('completed'), ...item.open()];
    this.#text = item;
    return events;
  }

  #closeText(status: OutputItem['status']): ItemEvent[] {
    const open = this.#text;
    this.#text = undefined;
    return open?.close(status) ?? [];
  }

  #closeCalls(status: OutputItem['status']): ItemEvent[] {
    const open = [...this.#calls.values()];
    this.#calls.clear();
    return open.flatMap((call) => call.close(status));
  }
}
