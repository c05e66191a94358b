import { createParser } from 'eventsource-parser';

/** Far above any chunk of a chat answer: a line that never ends must not fill the memory. */
const MAX_EVENT_CHARACTERS = 4 * 1024 * 1024;

export interface SseReader {
  /** Returns the data of every event that this text completes. */
  push(text: string): string[];
  /** Returns the data of a last event without its empty line. */
  end(): string[];
}

export function createSseReader(): SseReader {
  let events: string[] = [];
  const parser = createParser({
    maxBufferSize: MAX_EVENT_CHARACTERS,
    onEvent({ data }) {
      events.push(data);
    },
    onError(error) {
      if (error.type === 'max-buffer-size-exceeded') {
        throw new Error(`an event is longer than ${MAX_EVENT_CHARACTERS} characters`);
      }
      // llama-server before mid-2025 reports a failure in a field of its own instead of in `data`.
      if (error.field === 'error') events.push(`{"error":${error.value}}`);
    },
  });
  const feed = (text: string): string[] => {
    events = [];
    parser.feed(text);
    return events;
  };

  return {
    push: feed,
    end: () => feed('\n\n'),
  };
}
