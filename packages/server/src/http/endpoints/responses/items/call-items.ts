import { customInput } from '../tools.ts';
import { type ItemEvent, OpenItem, type OutputItem } from './open-item.ts';

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
