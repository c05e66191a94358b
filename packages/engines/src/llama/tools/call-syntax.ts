/** Placeholder for the id of a call in the texts of a syntax. */
export const CALL_ID = '\u{F0BAD}';

/** How a model writes tool calls. All texts are fixed. Those that are not generated may contain `CALL_ID`. */
export interface CallSyntax {
  /** Marks the beginning of calls anywhere in an answer. Undefined: only `open` and a name at its very start do. */
  readonly mark: string | undefined;
  /** From the start of the answer to the first name. */
  readonly open: string;
  /** From the name to the end of the arguments. */
  readonly arguments: JsonArguments | TaggedArguments;
  /** After the arguments, up to where the model chooses whether to continue. */
  readonly close: string;
  /** Begins another call: the text that the model chooses, and the rest up to the name. Undefined: one call per answer. */
  readonly next: { readonly choice: string; readonly rest: string } | undefined;
  /** The other choice; the end of the turn when empty. */
  readonly end: string;
}

/** One JSON object. */
export interface JsonArguments {
  readonly kind: 'json';
  /** Ends a name: one character, tag or control token. */
  readonly nameEnd: string;
  /** From there to the object. */
  readonly middle: string;
}

/**
 * Each argument between tags: strings as they are, other values as JSON. Tags are generated too, since a tag is often one token and the
 * model chooses whether another argument follows.
 */
export interface TaggedArguments {
  readonly kind: 'tagged';
  /** From the name to the first argument, or to `end`. */
  readonly lead: string;
  readonly beforeKey: string;
  readonly beforeValue: string;
  /** White space between a value and `valueEnd`. */
  readonly valueMargin: string;
  /** A tag that no string may contain. */
  readonly valueEnd: string;
  /** From there to another argument, or to `end`. */
  readonly afterValue: string;
  /** A tag where there is no other argument. */
  readonly end: string;
}

/** For models whose template does not support tools: our own instructions teach this syntax. */
export const GENERIC_SYNTAX = {
  mark: '<tool_call>',
  open: '<tool_call>\n{"name": "',
  arguments: { kind: 'json', nameEnd: '"', middle: ', "arguments": ' },
  close: '}\n</tool_call>',
  next: { choice: '\n', rest: '<tool_call>\n{"name": "' },
  end: '',
} as const satisfies CallSyntax;

/**
 * The id of a call as models see it: its number in the conversation. Client ids are random, and with them the same request would not
 * give the same answer. Mistral's templates require nine letters and digits.
 */
export const shownId = (number: number) => `call${String(number).padStart(5, '0')}`;

/** Turns generated arguments, chunk by chunk, into the JSON that clients get. */
export interface ArgumentsReader {
  read(text: string): { json: string; done: boolean };
}

/** The first unit of a fixed text: a control token, a tag, or a character. Models write tags as one token, so they are not split. */
export function firstUnit(text: string, controlTexts: readonly string[]): string {
  const control = controlTexts.find((each) => text.startsWith(each));
  return control ?? /^<[^<>]*>?/.exec(text)?.[0] ?? [...text.slice(0, 2)][0] ?? '';
}

/** Length of the common prefix, in whole units. */
export function sharedUnits(a: string, b: string, controlTexts: readonly string[]): number {
  let at = 0;
  while (at < a.length) {
    const unit = firstUnit(a.slice(at), controlTexts);
    if (unit !== firstUnit(b.slice(at), controlTexts)) break;
    at += unit.length;
  }
  return at;
}

/** Names and keys as templates print them without quotes. The texts around them begin with other characters. */
export const NAME_CHARACTERS = /^[\p{L}\p{N}_.-]+$/u;

/** A regular expression that matches exactly this text. */
export const escapePattern = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
