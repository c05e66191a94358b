/** Stands for the id of a call inside the texts of a syntax. */
export const CALL_ID = '\u{F0BAD}';

/** How a model writes tool calls. All texts are fixed; those that are put into the context, not generated, may hold `CALL_ID`. */
export interface CallSyntax {
  /** What shows that calls begin, wherever it stands in an answer. Undefined: only `open` and a name at its very start do. */
  readonly mark: string | undefined;
  /** From the start of the answer to the first name. */
  readonly open: string;
  /** From the name to the end of the arguments. */
  readonly arguments: JsonArguments | TaggedArguments;
  /** After the arguments, up to where the model chooses to go on or not. */
  readonly close: string;
  /** What begins another call: the text that is the model's choice, and the rest up to the name. Undefined: one call an answer. */
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
 * Each argument between tags: strings as they are, other values as JSON. All of it is generated, since a tag is often one token, and
 * whether there is another argument is the model's choice.
 */
export interface TaggedArguments {
  readonly kind: 'tagged';
  /** From the name to the first argument, or to `end`. */
  readonly lead: string;
  readonly beforeKey: string;
  readonly beforeValue: string;
  /** White space between a value and `valueEnd`. */
  readonly valueMargin: string;
  /** A tag that no string may hold. */
  readonly valueEnd: string;
  /** From there to another argument, or to `end`. */
  readonly afterValue: string;
  /** A tag where there is no other argument. */
  readonly end: string;
}

/** What our own instructions teach a model whose template knows nothing of tools. */
export const GENERIC_SYNTAX = {
  mark: '<tool_call>',
  open: '<tool_call>\n{"name": "',
  arguments: { kind: 'json', nameEnd: '"', middle: ', "arguments": ' },
  close: '}\n</tool_call>',
  next: { choice: '\n', rest: '<tool_call>\n{"name": "' },
  end: '',
} as const satisfies CallSyntax;

/**
 * The id of a call as models see it. It counts the calls of a conversation: ids of clients are random, and what a model reads must not
 * be, or the same request would not give the same answer. Mistral's templates refuse all but nine letters and digits.
 */
export const shownId = (number: number) => `call${String(number).padStart(5, '0')}`;

/** Turns generated arguments, chunk by chunk, into the JSON that clients get. */
export interface ArgumentsReader {
  read(text: string): { json: string; done: boolean };
}

/** The first unit of a fixed text: a control token, a tag, or else a character. What models write as one token is not cut. */
export function firstUnit(text: string, controlTexts: readonly string[]): string {
  const control = controlTexts.find((each) => text.startsWith(each));
  return control ?? /^<[^<>]*>?/.exec(text)?.[0] ?? [...text.slice(0, 2)][0] ?? '';
}

/** Length of the text that both begin with, in whole units. */
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
