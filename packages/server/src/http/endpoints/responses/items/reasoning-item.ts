import { sealText } from '../sealed-text.ts';
import { type ItemEvent, OpenItem, type OutputItem } from './open-item.ts';

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
