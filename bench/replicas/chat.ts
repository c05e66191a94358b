/** What load generator, upstream and servers of this benchmark agree on. */

/** An entry of the catalog. */
export const MODEL = 'mistralai/mistral-small-3.2-24b-instruct';
export const KEY = 'bench-key-0123456789abcdef';
/** Occurs in the first word of a stream and nowhere else. */
export const FIRST_WORD = 'quokka';
/** A stream lasts two seconds, so 1 000 of them that start within one second run together for another. */
export const STREAM_WORDS = 9;
export const WORD_INTERVAL_MS = 250;

export const chatBody = (model: string, stream: boolean): string =>
  JSON.stringify({
    model,
    messages: [{ role: 'user', content: 'What does a gateway do, and what does it cost? Answer in one sentence.' }],
    max_tokens: 64,
    ...(stream ? { stream: true } : {}),
  });
