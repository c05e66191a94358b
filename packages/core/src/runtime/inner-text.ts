export interface InnerText {
  /** What can be passed on of the text so far. */
  push(text: string): string;
}

/** More than this is passed on, so that endless blanks are not collected. */
const MAX_HELD = 256;

/** Passes on a text that arrives in pieces, without the blanks at its beginning and its end. */
export function createInnerText(): InnerText {
  let held = '';
  let begun = false;
  return {
    push(piece) {
      const text = begun ? held + piece : piece.trimStart();
      const ready = text.trimEnd();
      held = text.slice(ready.length);
      begun ||= ready !== '';
      if (held.length <= MAX_HELD) return ready;
      held = '';
      return text;
    },
  };
}
