import type { ConversationItem, StoredResponse } from '@baobab/core/domain/response.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { stringifyInSlices } from '@baobab/core/runtime/json-slices.ts';
import { createTimeSlice } from '@baobab/core/runtime/time-slices.ts';
import type { ReferredResponses } from '../../../services/responses/responses.ts';
import { parseJsonBytes } from '../../body/json-value.ts';
import type { InputItemBody } from './schema.ts';
import type { WireResponse } from './writer.ts';

/** An item as it is stored and listed: with an id. */
export type StoredItem = InputItemBody & { id: string; type: string };

const PREFIXES: Readonly<Record<string, string>> = {
  message: 'msg',
  reasoning: 'rs',
  function_call: 'fc',
  function_call_output: 'fco',
  custom_tool_call: 'ctc',
  custom_tool_call_output: 'ctco',
};

type Part = Exclude<NonNullable<InputItemBody['content']>, string>[number];

/** Fields that the official schema wants of every part and that clients leave out. */
function partToWire(part: Part): object {
  if (part.type === 'output_text') return { annotations: [], logprobs: [], ...part };
  return part.type === 'input_image' ? { ...part, detail: part.detail ?? 'auto' } : part;
}

function contentToWire({ role, content }: InputItemBody): object[] {
  const type = role === 'assistant' ? 'output_text' : 'input_text';
  return (typeof content === 'string' ? [{ type, text: content }] : (content ?? [])).map(partToWire);
}

/** Items of an input as they are listed. The id of an item names the response that holds it, so that it can be found. */
export function itemsToStore(items: readonly InputItemBody[], idPart: string): StoredItem[] {
  return items.map((item, index) => {
    const type = item.type ?? 'message';
    const id = item.id || `${PREFIXES[type] ?? 'item'}_${idPart}_in${index}`;
    const listed = { ...item, type, id, status: item.status ?? 'completed' };
    return (type === 'message' ? { ...listed, content: contentToWire(item) } : listed) as StoredItem;
  });
}

/** Items as they are stored. */
export async function contentsOf(items: readonly StoredItem[]): Promise<ConversationItem[]> {
  const slice = createTimeSlice({ background: true });
  const contents: ConversationItem[] = [];
  for (const item of items) {
    contents.push({ id: item.id, content: await stringifyInSlices(item) });
    if (slice.isOver()) await slice.next();
  }
  return contents;
}

/** Stored texts may be as large as a body, and are parsed like one, but an answer with `logprobs` has dozens of names for each token. */
export const parseStored = async <T>(text: string): Promise<T> =>
  (await parseJsonBytes(Buffer.from(text), { maxNames: Number.POSITIVE_INFINITY })) as T;

export const storedInput = ({ input }: StoredResponse): Promise<StoredItem[]> => parseStored(input);

/** The status is the one of the record: the content of a background response is written when it ends. */
export const storedResponse = ({ content, status }: StoredResponse): WireResponse => ({
  ...(JSON.parse(content) as WireResponse),
  status,
});

/** The items of a conversation. */
export async function parseItems(items: readonly ConversationItem[]): Promise<StoredItem[]> {
  const slice = createTimeSlice();
  const parsed: StoredItem[] = [];
  for (const { content } of items) {
    parsed.push(await parseStored<StoredItem>(content));
    if (slice.isOver()) await slice.next();
  }
  return parsed;
}

/** Everything that was said in these responses. */
export async function itemsOf(history: readonly StoredResponse[]): Promise<StoredItem[]> {
  const slice = createTimeSlice();
  const items: StoredItem[] = [];
  for (const response of history) {
    const { output } = await parseStored<{ output: StoredItem[] }>(response.content);
    for (const item of await storedInput(response)) items.push(item);
    for (const item of output) items.push(item);
    if (slice.isOver()) await slice.next();
  }
  return items;
}

/** `msg_<part>_3` → `resp_<part>` */
const ownerOf = (itemId: string): string | undefined => {
  const part = /^[a-z]+_([0-9a-z]+)_(?:in)?\d+$/.exec(itemId)?.[1];
  return part && `resp_${part}`;
};

const isReference = ({ type, id, role }: InputItemBody): boolean =>
  type === 'item_reference' || (!type && !role && Boolean(id));

const notFound = ({ id }: InputItemBody, index: number) => errors.itemNotFound(id ?? '', `input[${index}].id`);

/** The responses that hold the items which the input refers to. */
export function ownersOfReferences(items: readonly InputItemBody[]): string[] {
  const owners = new Set<string>();
  for (const [index, item] of items.entries()) {
    if (!isReference(item)) continue;
    const owner = ownerOf(item.id ?? '');
    if (owner === undefined) throw notFound(item, index);
    owners.add(owner);
  }
  return [...owners];
}

/** Puts the items of these responses in place of references to them. */
export async function replaceReferences(
  items: readonly InputItemBody[],
  referred: ReferredResponses,
): Promise<InputItemBody[]> {
  if ('missing' in referred) {
    const index = items.findIndex((item) => isReference(item) && ownerOf(item.id ?? '') === referred.missing);
    throw notFound(items[index] ?? {}, index);
  }
  const known = new Map<string, StoredItem>();
  for (const item of await itemsOf(referred)) if (!known.has(item.id)) known.set(item.id, item);
  return items.map((item, index) => {
    if (!isReference(item)) return item;
    const found = known.get(item.id ?? '');
    if (found === undefined) throw notFound(item, index);
    return found;
  });
}
