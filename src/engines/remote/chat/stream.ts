import type { Dispatcher } from 'undici';
import type { ChatEvent } from '../../engine.ts';
import { type FailureScope, failureFromAnswer, malformedAnswer } from '../failure.ts';
import type { Lease } from '../routing/lease.ts';
import { createSseReader } from '../transport/sse.ts';
import { type ChatChunks, createChatChunks } from './answer.ts';

export interface ChatReader {
  readonly chunks: ChatChunks;
  /** The next events as soon as there are any; undefined at the end. Reads no further than it is asked to. */
  read(): Promise<ChatEvent[] | undefined>;
  /** After a whole answer the connection is kept, otherwise it is closed at once. */
  close(): void;
}

const ignore = (): void => {};
/** A whole answer in one piece of JSON. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

export function createChatReader(
  answer: Dispatcher.ResponseData,
  lease: Lease,
  scope: FailureScope,
  estimatedPromptTokens: number,
): ChatReader {
  const { body } = answer;
  body.on('error', ignore);
  const pieces: AsyncIterator<Buffer> = body.iterator({ destroyOnReturn: false });
  const chunks = createChatChunks(estimatedPromptTokens);
  // An upstream that cannot stream answers with plain JSON.
  const source = String(answer.headers['content-type']).startsWith('application/json')
    ? wholeBody()
    : createSseReader();
  let atEnd = false;

  const nextPayloads = async (): Promise<string[]> => {
    try {
      const piece = await pieces.next();
      lease.begun();
      if (piece.done !== true) return source.push(piece.value);
      atEnd = true;
      return source.end();
    } catch (error) {
      throw lease.explain(error);
    }
  };

  return {
    chunks,
    async read() {
      const out: ChatEvent[] = [];
      while (out.length === 0 && !atEnd && !chunks.done) {
        for (const payload of await nextPayloads()) {
          const reported = parse(payload, out);
          if (reported !== undefined) throw failureFromAnswer(statusOf(reported), reported, scope);
        }
      }
      if (out.length > 0) return out;
      if (chunks.reason === undefined && !chunks.done) throw malformedAnswer('the answer ended too early', scope);
      return undefined;
    },
    close() {
      if (atEnd) return;
      if (chunks.done) body.dump().catch(ignore);
      else body.destroy();
    },
  };

  function parse(payload: string, out: ChatEvent[]): unknown {
    try {
      return chunks.read(payload, out);
    } catch (error) {
      throw malformedAnswer(`a chunk cannot be read: ${String(error)}`, scope);
    }
  }
}

/** The status that an error inside a stream would have had as an answer of its own. */
function statusOf(reported: unknown): number {
  const text = JSON.stringify(reported);
  const code = Number(/"(?:code|status)":"?(\d{3})\b/.exec(text)?.[1]);
  if (code >= 400 && code < 600) return code;
  return /invalid_request_error|BadRequest|validation/i.test(text) ? 400 : 500;
}

function wholeBody() {
  const parts: Buffer[] = [];
  let length = 0;
  return {
    push(chunk: Buffer): string[] {
      parts.push(chunk);
      length += chunk.length;
      if (length > MAX_ANSWER_BYTES) throw new Error(`an answer is longer than ${MAX_ANSWER_BYTES} bytes`);
      return [];
    },
    end: (): string[] => [Buffer.concat(parts).toString('utf8')],
  };
}
