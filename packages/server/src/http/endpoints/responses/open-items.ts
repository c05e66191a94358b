import type { TokenLogprob } from '@baobab/core/engine/engine.ts';
import { sealText } from './sealed-text.ts';
import { customInput } from './tools.ts';

export interface OutputItem {
  type: string;
  id: string;
  status: 'in_progress' | 'completed' | 'incomplete';
  [field: string]: unknown;
}

/** An event of the stream without its sequence number. */
export interface ItemEvent {
  type: string;
  [field: string]: unknown;
}

/** An output item that is still written. */
export abstract class OpenItem {
  readonly item: OutputItem;
  readonly index: number;

  constructor(item: OutputItem, index: number) {
    this.item = item;
    this.index = index;
  }

  /** Events before the first delta. */
  open(): ItemEvent[] {
    return [{ type: 'response.output_item.added', output_index: this.index, item: { ...this.item } }];
  }

  close(status: OutputItem['status']): ItemEvent[] {
    const events = this.finish();
    this.item.status = status;
    return [...events, { type: 'response.output_item.done', output_index: this.index, item: { ...this.item } }];
  }

  /** Completes the item. Returns the events before it is done. */
  protected abstract finish(): ItemEvent[];
}

const toWire = ({ token, bytes, logprob, top }: TokenLogprob) => ({
  token,
  bytes: [...bytes],
  logprob,
  top_logprobs: top.map((each) => ({ token: each.token, bytes: [...each.bytes], logprob: each.logprob })),
});

export class MessageItem extends OpenItem {
  readonly #part = { type: 'output_text', text: '', annotations: [], logprobs: [] as object[] };
  readonly #at: object;
  readonly #withLogprobs: boolean;

  constructor(item: OutputItem, index: number, { withLogprobs }: { withLogprobs: boolean }) {
    super(item, index);
    this.#at = { item_id: item.id, output_index: index, content_index: 0 };
    this.#withLogprobs = withLogprobs;
  }

  override open(): ItemEvent[] {
    const part = { ...this.#part, logprobs: [] };
    return [...super.open(), { type: 'response.content_part.added', ...this.#at, part }];
  }

  append(delta: string, found: readonly TokenLogprob[] = []): ItemEvent[] {
    const logprobs = this.#withLogprobs ? found.map(toWire) : [];
    this.#part.text += delta;
    this.#part.logprobs.push(...logprobs);
    return [{ type: 'response.output_text.delta', ...this.#at, delta, logprobs }];
  }

  protected finish(): ItemEvent[] {
    const part = this.#part;
    this.item.content = [part];
    return [
      { type: 'response.output_text.done', ...this.#at, text: part.text, logprobs: part.logprobs },
      { type: 'response.content_part.done', ...this.#at, part },
    ];
  }
}

export interface ReasoningOptions {
  sealsReasoning: boolean;
  summarizes: boolean;
}

export class ReasoningItem extends OpenItem {
  readonly #part = { type: 'reasoning_text', text: '' };
  readonly #at: object;
  readonly #options: ReasoningOptions;

  constructor(item: OutputItem, index: number, options: ReasoningOptions) {
    super(item, index);
    this.#at = { item_id: item.id, output_index: index, content_index: 0 };
    this.#options = options;
  }

  override open(): ItemEvent[] {
    return [...super.open(), { type: 'response.content_part.added', ...this.#at, part: { ...this.#part } }];
  }

  append(delta: string): ItemEvent[] {
    this.#part.text += delta;
    return [{ type: 'response.reasoning_text.delta', ...this.#at, delta }];
  }

  protected finish(): ItemEvent[] {
    const part = this.#part;
    this.item.content = [part];
    if (this.#options.sealsReasoning) this.item.encrypted_content = sealText(part.text);
    const events: ItemEvent[] = [
      { type: 'response.reasoning_text.done', ...this.#at, text: part.text },
      { type: 'response.content_part.done', ...this.#at, part },
    ];
    return this.#options.summarizes ? [...events, ...this.#summary(part.text)] : events;
  }

  /** Nothing summarizes the reasoning, so clients that asked for a summary get the whole text. */
  #summary(text: string): ItemEvent[] {
    const at = { item_id: this.item.id, output_index: this.index, summary_index: 0 };
    const part = { type: 'summary_text', text };
    this.item.summary = [part];
    return [
      { type: 'response.reasoning_summary_part.added', ...at, part: { ...part, text: '' } },
      { type: 'response.reasoning_summary_text.delta', ...at, delta: text },
      { type: 'response.reasoning_summary_text.done', ...at, text },
      { type: 'response.reasoning_summary_part.done', ...at, part },
    ];
  }
}

abstract class CallItem extends OpenItem {
  protected readonly at: object;
  protected written = '';

  constructor(item: OutputItem, index: number) {
    super(item, index);
    this.at = { item_id: item.id, output_index: index };
  }

  append(delta: string): ItemEvent[] {
    this.written += delta;
    return [];
  }
}

export class FunctionCallItem extends CallItem {
  override append(delta: string): ItemEvent[] {
    super.append(delta);
    return delta === '' ? [] : [{ type: 'response.function_call_arguments.delta', ...this.at, delta }];
  }

  protected finish(): ItemEvent[] {
    const { at, item, written } = this;
    item.arguments = written;
    return [{ type: 'response.function_call_arguments.done', ...at, name: item.name, arguments: written }];
  }
}

/** The free text of a custom tool is inside JSON, so it is sent when it is whole. */
export class CustomCallItem extends CallItem {
  protected finish(): ItemEvent[] {
    const input = customInput(this.written);
    this.item.input = input;
    return [
      { type: 'response.custom_tool_call_input.delta', ...this.at, delta: input },
      { type: 'response.custom_tool_call_input.done', ...this.at, input },
    ];
  }
}
