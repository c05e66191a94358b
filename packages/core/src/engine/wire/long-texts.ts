import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ChatRequest } from '../engine.ts';

/**
 * Long texts of a prompt are sent as bytes behind the header, like the texts of embeddings: encoding megabytes of JSON in one go
 * would block the event loop.
 */
export interface LongText {
  /** Index of the message, or 0 for a prompt that is one text. */
  index: number;
  bytes: number;
}

type Prompt = ChatRequest['prompt'];

export interface SplitPrompt {
  /** With empty texts in place of the long ones. */
  prompt: Prompt;
  longTexts: readonly LongText[];
  body: Uint8Array;
}

const LONG_CHARS = 262_144;
/** About a millisecond. */
const PIECE_CHARS = 1_048_576;

function textsOf(prompt: Prompt): readonly string[] {
  if ('messages' in prompt) return prompt.messages.map(({ content }) => content);
  return 'text' in prompt ? [prompt.text] : [];
}

function withTexts(prompt: Prompt, texts: ReadonlyMap<number, string>): Prompt {
  if ('text' in prompt) return { text: texts.get(0) ?? prompt.text };
  if (!('messages' in prompt)) return prompt;
  return {
    messages: prompt.messages.map((message, index) => ({ ...message, content: texts.get(index) ?? message.content })),
  };
}

/** Never cuts a surrogate pair. */
function* piecesOf(text: string): Generator<string> {
  let from = 0;
  while (from < text.length) {
    let to = Math.min(text.length, from + PIECE_CHARS);
    const last = text.charCodeAt(to - 1);
    if (to < text.length && last >= 0xd800 && last < 0xdc00) to -= 1;
    yield text.slice(from, to);
    from = to;
  }
}

/** Undefined for a text that UTF-8 cannot hold. */
async function byteLength(text: string): Promise<number | undefined> {
  let length = 0;
  for (const piece of piecesOf(text)) {
    if (!piece.isWellFormed()) return undefined;
    length += Buffer.byteLength(piece);
    await nextTurn();
  }
  return length;
}

async function split(prompt: Prompt, indices: readonly number[]): Promise<SplitPrompt | undefined> {
  const texts = textsOf(prompt);
  const longTexts: LongText[] = [];
  for (const index of indices) {
    const bytes = await byteLength(texts[index] ?? '');
    if (bytes !== undefined) longTexts.push({ index, bytes });
  }
  if (longTexts.length === 0) return undefined;
  const body = Buffer.allocUnsafeSlow(longTexts.reduce((sum, { bytes }) => sum + bytes, 0));
  let at = 0;
  for (const { index } of longTexts) {
    for (const piece of piecesOf(texts[index] ?? '')) {
      at += body.write(piece, at);
      await nextTurn();
    }
  }
  return { prompt: withTexts(prompt, new Map(longTexts.map(({ index }) => [index, '']))), longTexts, body };
}

/** Undefined: there is nothing to split. A text that UTF-8 cannot hold stays where it is. */
export function splitPrompt(prompt: Prompt): Promise<SplitPrompt | undefined> | undefined {
  const long = textsOf(prompt).flatMap((text, index) => (text.length > LONG_CHARS ? [index] : []));
  return long.length === 0 ? undefined : split(prompt, long);
}

export function joinPrompt(prompt: Prompt, longTexts: readonly LongText[], body: Uint8Array): Prompt {
  if (longTexts.length === 0) return prompt;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const texts = new Map<number, string>();
  let at = 0;
  for (const { index, bytes: length } of longTexts) {
    texts.set(index, bytes.toString('utf8', at, at + length));
    at += length;
  }
  return withTexts(prompt, texts);
}
