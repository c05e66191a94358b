/**
 * Control characters can move the cursor of a terminal, clear it or forge lines, the bidirectional ones reorder the text around them,
 * and invisible ones make two names look the same. Joiners stay: scripts and emoji need them. Halves of surrogate pairs are no
 * characters: what is stored or sent would not be what was given.
 */
const CONTROL =
  /[\p{Cc}\p{Cs}\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]/u;
const ALL_CONTROLS = new RegExp(CONTROL, 'gu');

export const hasControlCharacter = (text: string): boolean => CONTROL.test(text);

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** For terminals and logs: control characters as JSON escapes. Line breaks stay. */
export const printable = (text: string): string =>
  text.replace(ALL_CONTROLS, (character) => (character === '\n' ? character : escaped(character)));

/** The same for a text that must stay on one line. */
export const printableLine = (text: string): string => text.replace(ALL_CONTROLS, escaped);
