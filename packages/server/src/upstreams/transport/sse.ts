import { createParser, type EventSourceParser } from 'eventsource-parser';

/** Far above any chunk of a chat answer: a line that never ends must not fill the memory. */
const MAX_EVENT_CHARACTERS = 4 * 1024 * 1024;

/** A longer part of an event goes to the parser, which does not read it again with each piece. */
const MAX_PART_CHARACTERS = 65_536;

const NONE: string[] = [];
const FIELD = 'data: ';
const LINE_FEED = 10;

/** The data of each event, if all of them have one line of data. */
function plainEvents(text: string): string[] | undefined {
  if (text.includes('\r')) return undefined;
  const events: string[] = [];
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at);
    if (!text.startsWith(FIELD, at) || text.charCodeAt(end + 1) !== LINE_FEED) return undefined;
    events.push(text.slice(at + FIELD.length, end));
    at = end + 2;
  }
  return events;
}

/** Most streams are plain events. The parser takes over at the first text of another kind: it needs 2 KB for each stream. */
export class SseReader {
  #parser: EventSourceParser | undefined;
  #events: string[] = NONE;
  /** An event that is not complete. */
  #part = '';

  /** Returns the data of every event that this text completes. */
  push(text: string): string[] {
    if (this.#parser !== undefined) return this.#parse(text);
    const all = this.#part + text;
    const end = all.lastIndexOf('\n\n');
    const whole = end === -1 ? '' : all.slice(0, end + 2);
    const part = all.slice(whole.length);
    const events = part.length > MAX_PART_CHARACTERS || part.includes('\r') ? undefined : plainEvents(whole);
    this.#part = events === undefined ? '' : part;
    return events ?? this.#parse(all);
  }

  /** Returns the data of a last event without its empty line. */
  end(): string[] {
    if (this.#parser === undefined && this.#part === '') return NONE;
    const part = this.#part;
    this.#part = '';
    return this.#parse(`${part}\n\n`);
  }

  #parse(text: string): string[] {
    const events: string[] = [];
    this.#events = events;
    this.#parser ??= this.#createParser();
    this.#parser.feed(text);
    this.#events = NONE;
    return events;
  }

  #createParser(): EventSourceParser {
    return createParser({
      maxBufferSize: MAX_EVENT_CHARACTERS,
      onEvent: ({ data }) => this.#events.push(data),
      onError: (error) => {
        if (error.type === 'max-buffer-size-exceeded') {
          throw new Error(`an event is longer than ${MAX_EVENT_CHARACTERS} characters`);
        }
        // llama-server before mid-2025 reports a failure in a field of its own instead of in `data`.
        if (error.field === 'error') this.#events.push(`{"error":${error.value}}`);
      },
    });
  }
}
