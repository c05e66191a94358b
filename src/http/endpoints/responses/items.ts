import type { ChatEvent, TokenLogprob } from '../../../engines/engine.ts';
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

interface OpenItem {
  index: number;
  item: OutputItem;
  /** Events before the item is done. */
  close(status: OutputItem['status']): ItemEvent[];
}

interface OpenText extends OpenItem {
  kind: 'message' | 'reasoning';
  append(text: string, logprobs?: readonly TokenLogprob[]): ItemEvent[];
}

export interface ItemsOptions {
  /** Ids of items: `msg_<part>_<index>`. They name the response that holds them. */
  idPart: string;
  customTools: ReadonlySet<string>;
  withLogprobs: boolean;
  sealsReasoning: boolean;
  summarizes: boolean;
}

const toWire = ({ token, bytes, logprob, top }: TokenLogprob) => ({
  token,
  bytes: [...bytes],
  logprob,
  top_logprobs: top.map((each) => ({ token: each.token, bytes: [...each.bytes], logprob: each.logprob })),
});

/** Builds the output items of a response from the events of a chat, and the stream events that describe them. */
export function createOutputItems(options: ItemsOptions) {
  const { idPart, customTools, withLogprobs, sealsReasoning, summarizes } = options;
  const output: OutputItem[] = [];
  let text: OpenText | undefined;
  /** Calls stay open until the end: some servers write several at once. */
  const calls = new Map<number, OpenItem & { append(delta: string): ItemEvent[] }>();

  function add(prefix: string, item: Omit<OutputItem, 'id' | 'status'> & { type: string }): [number, OutputItem] {
    const index = output.length;
    const { type, ...fields } = item;
    const created: OutputItem = { type, id: `${prefix}_${idPart}_${index}`, status: 'in_progress', ...fields };
    output.push(created);
    return [index, created];
  }

  const added = (index: number, item: OutputItem): ItemEvent => ({
    type: 'response.output_item.added',
    output_index: index,
    item: { ...item },
  });

  function close(open: OpenItem, status: OutputItem['status']): ItemEvent[] {
    const events = open.close(status);
    open.item.status = status;
    return [...events, { type: 'response.output_item.done', output_index: open.index, item: { ...open.item } }];
  }

  function openMessage(): [OpenText, ItemEvent[]] {
    const [index, item] = add('msg', { type: 'message', role: 'assistant', content: [] });
    const part = { type: 'output_text', text: '', annotations: [], logprobs: [] as object[] };
    const at = { item_id: item.id, output_index: index, content_index: 0 };
    const opening = [
      added(index, item),
      { type: 'response.content_part.added', ...at, part: { ...part, logprobs: [] } },
    ];
    const open: OpenText = {
      kind: 'message',
      index,
      item,
      append(delta, found = []) {
        const logprobs = withLogprobs ? found.map(toWire) : [];
        part.text += delta;
        part.logprobs.push(...logprobs);
        return [{ type: 'response.output_text.delta', ...at, delta, logprobs }];
      },
      close() {
        item.content = [part];
        return [
          { type: 'response.output_text.done', ...at, text: part.text, logprobs: part.logprobs },
          { type: 'response.content_part.done', ...at, part },
        ];
      },
    };
    return [open, opening];
  }

  function openReasoning(): [OpenText, ItemEvent[]] {
    const [index, item] = add('rs', { type: 'reasoning', summary: [], content: [] });
    const part = { type: 'reasoning_text', text: '' };
    const at = { item_id: item.id, output_index: index, content_index: 0 };
    const open: OpenText = {
      kind: 'reasoning',
      index,
      item,
      append(delta) {
        part.text += delta;
        return [{ type: 'response.reasoning_text.delta', ...at, delta }];
      },
      close() {
        item.content = [part];
        if (sealsReasoning) item.encrypted_content = sealText(part.text);
        const events: ItemEvent[] = [
          { type: 'response.reasoning_text.done', ...at, text: part.text },
          { type: 'response.content_part.done', ...at, part },
        ];
        return summarizes ? [...events, ...summary(index, item, part.text)] : events;
      },
    };
    return [open, [added(index, item), { type: 'response.content_part.added', ...at, part: { ...part } }]];
  }

  /** Nothing summarizes the reasoning, so clients that asked for a summary get the whole text. */
  function summary(index: number, item: OutputItem, whole: string): ItemEvent[] {
    const at = { item_id: item.id, output_index: index, summary_index: 0 };
    const part = { type: 'summary_text', text: whole };
    item.summary = [part];
    return [
      { type: 'response.reasoning_summary_part.added', ...at, part: { ...part, text: '' } },
      { type: 'response.reasoning_summary_text.delta', ...at, delta: whole },
      { type: 'response.reasoning_summary_text.done', ...at, text: whole },
      { type: 'response.reasoning_summary_part.done', ...at, part },
    ];
  }

  function openCall(key: number, callId: string, name: string): ItemEvent[] {
    const isCustom = customTools.has(name);
    const [index, item] = isCustom
      ? add('ctc', { type: 'custom_tool_call', call_id: callId, name, input: '' })
      : add('fc', { type: 'function_call', call_id: callId, name, arguments: '' });
    const at = { item_id: item.id, output_index: index };
    let written = '';
    calls.set(key, {
      index,
      item,
      append(delta) {
        written += delta;
        // The free text of a custom tool is inside JSON, so it is sent when it is whole.
        return isCustom || delta === '' ? [] : [{ type: 'response.function_call_arguments.delta', ...at, delta }];
      },
      close() {
        if (!isCustom) {
          item.arguments = written;
          return [{ type: 'response.function_call_arguments.done', ...at, name, arguments: written }];
        }
        const input = customInput(written);
        item.input = input;
        return [
          { type: 'response.custom_tool_call_input.delta', ...at, delta: input },
          { type: 'response.custom_tool_call_input.done', ...at, input },
        ];
      },
    });
    return [added(index, item)];
  }

  function closeText(status: OutputItem['status']): ItemEvent[] {
    const open = text;
    text = undefined;
    return open ? close(open, status) : [];
  }

  function closeCalls(status: OutputItem['status']): ItemEvent[] {
    const open = [...calls.values()];
    calls.clear();
    return open.flatMap((call) => close(call, status));
  }

  function write(kind: OpenText['kind'], delta: string, logprobs?: readonly TokenLogprob[]): ItemEvent[] {
    const events: ItemEvent[] = [];
    if (text?.kind !== kind) {
      events.push(...closeText('completed'), ...closeCalls('completed'));
      const [open, opening] = kind === 'message' ? openMessage() : openReasoning();
      text = open;
      events.push(...opening);
    }
    return [...events, ...(text?.append(delta, logprobs) ?? [])];
  }

  return {
    output,
    take(event: ChatEvent): ItemEvent[] {
      switch (event.type) {
        case 'text-delta':
          return write('message', event.text, event.logprobs);
        case 'reasoning-delta':
          return write('reasoning', event.text);
        case 'tool-call-delta': {
          const events = closeText('completed');
          if (!calls.has(event.index)) events.push(...openCall(event.index, event.id ?? '', event.name ?? ''));
          return [...events, ...(calls.get(event.index)?.append(event.argumentsDelta) ?? [])];
        }
        default:
          return [];
      }
    },
    /** Closes what is open. Only the last item can be incomplete. */
    end(status: 'completed' | 'incomplete'): ItemEvent[] {
      return [...closeText(status), ...closeCalls(status)];
    },
  };
}
