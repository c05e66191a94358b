/**
 * Control characters can move the cursor of a terminal, clear it or forge lines, and the bidirectional ones reorder the text
 * around them.
 */
const CONTROL = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;
const ALL_CONTROLS = new RegExp(CONTROL, 'gu');

export const hasControlCharacter = (text: string): boolean => CONTROL.test(text);

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** For terminals and logs: control characters as JSON escapes. Line breaks stay. */
export const printable = (text: string): string =>
  text.replace(ALL_CONTROLS, (character) => (character === '\n' ? character : escaped(character)));

/** The same for a text that must stay on one line. */
export const printableLine = (text: string): string => text.replace(ALL_CONTROLS, escaped);
