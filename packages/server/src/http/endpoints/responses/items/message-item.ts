import type { TokenLogprob } from '@baobab/core/engine/engine.ts';
import { type ItemEvent, OpenItem, type OutputItem } from './open-item.ts';

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
