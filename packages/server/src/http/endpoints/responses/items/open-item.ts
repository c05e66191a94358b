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
