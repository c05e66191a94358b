import type { IncomingMessage } from 'node:http';
import { MAX_BATCH_BYTES, MAX_BATCH_LINES, MAX_LINE_BYTES } from '@baobab/core/domain/batch.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { createTimeSlice } from '@baobab/core/runtime/time-slices.ts';
import type { TurnShare } from '@baobab/core/runtime/turn-shares.ts';
import { type JsonItem, readJsonItems } from '../../body/json-items.ts';
import { collecting } from '../../body/upload-form.ts';
import { CUSTOM_ID } from './schema.ts';

const NEWLINE = 10;
const SPACE = 32;
const CHUNK_BYTES = 65_536;

const ITEMS = { list: 'requests', member: 'params', maxItemBytes: MAX_LINE_BYTES, maxItems: MAX_BATCH_LINES };
const DISCONNECTED = new Set(['ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE']);

/** The body as it arrives. The connection stays open when its reader stops early, so that an error can be sent. */
async function* bodyOf(raw: IncomingMessage): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const chunk of raw.iterator({ destroyOnReturn: false })) {
      bytes += chunk.length;
      if (bytes > MAX_BATCH_BYTES) throw errors.bodyTooLarge(MAX_BATCH_BYTES);
      yield chunk;
    }
  } catch (error) {
    throw DISCONNECTED.has((error as NodeJS.ErrnoException).code ?? '') ? errors.clientCancelled() : error;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Params are checked when they run, like the body of any line. */
function checkItem({ index, value }: JsonItem): { customId: string; params: object } {
  const name = `requests[${index}]`;
  if (!isObject(value)) throw errors.invalidParameter(name, `'${name}' must be an object.`);
  const { custom_id: customId, params } = value;
  if (customId === undefined) throw errors.missingParameter(`${name}.custom_id`);
  if (typeof customId !== 'string' || !CUSTOM_ID.test(customId)) {
    throw errors.invalidParameter(
      `${name}.custom_id`,
      `'${name}.custom_id' must have 1 to 64 letters, digits, hyphens or underscores.`,
    );
  }
  if (params === undefined) throw errors.missingParameter(`${name}.params`);
  if (!isObject(params)) throw errors.invalidParameter(`${name}.params`, `'${name}.params' must be an object.`);
  return { customId, params };
}

/** The params as they were sent, on one line. A line break in valid JSON is always white space. */
function paramsText({ bytes, member }: JsonItem, params: object): Buffer {
  if (member === undefined) return Buffer.from(JSON.stringify(params));
  const text = bytes.subarray(member.start, member.end);
  for (let at = text.indexOf(NEWLINE); at !== -1; at = text.indexOf(NEWLINE, at + 1)) text[at] = SPACE;
  return text;
}

function toLine(item: JsonItem, customId: string, params: object): Buffer {
  const head = `{"custom_id":"${customId}","method":"POST","url":"/v1/messages","body":`;
  const line = Buffer.concat([Buffer.from(head), paramsText(item, params), Buffer.from('}\n')]);
  if (line.length > MAX_LINE_BYTES) {
    const name = `requests[${item.index}]`;
    throw errors.invalidParameter(name, `'${name}' is longer than ${MAX_LINE_BYTES} bytes.`);
  }
  return line;
}

export interface MessageRequests {
  /** The requests as lines of a batch. Throws an error for the client when the body is not valid. */
  lines: AsyncIterable<Uint8Array>;
  /** How many there are. Call it after the last line. */
  count(): number;
}

/** Turns the body of a request into lines of a batch while it arrives, so that its size costs no memory. */
export function readMessageRequests(raw: IncomingMessage, share: TurnShare): MessageRequests {
  const ids = new Map<string, number>();

  async function* lines(): AsyncGenerator<Uint8Array> {
    const slice = createTimeSlice({ background: true });
    let waiting: Buffer[] = [];
    let [waitingBytes, bytes] = [0, 0];
    for await (const item of readJsonItems(collecting(bodyOf(raw), share), ITEMS)) {
      const { customId, params } = checkItem(item);
      const first = ids.get(customId);
      if (first !== undefined) {
        const name = `requests[${item.index}].custom_id`;
        throw errors.invalidParameter(name, `'${name}' is the same as that of 'requests[${first}]'.`);
      }
      ids.set(customId, item.index);
      const line = toLine(item, customId, params);
      bytes += line.length;
      if (bytes > MAX_BATCH_BYTES) throw errors.bodyTooLarge(MAX_BATCH_BYTES);
      waiting.push(line);
      waitingBytes += line.length;
      if (waitingBytes >= CHUNK_BYTES) {
        yield Buffer.concat(waiting);
        [waiting, waitingBytes] = [[], 0];
      }
      if (slice.isOver()) await slice.next();
    }
    if (waitingBytes > 0) yield Buffer.concat(waiting);
  }

  return { lines: lines(), count: () => ids.size };
}
