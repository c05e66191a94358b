/** Stands for the id of a call inside the texts of a syntax. */
export const CALL_ID = '\u{F0BAD}';

/**
 * How a model writes tool calls. All texts between name and arguments are fixed: they are put into the context, not generated. They
 * may hold `CALL_ID`.
 */
export interface CallSyntax {
  /** What shows that calls begin, wherever it stands in an answer. Undefined: only `open` and a name at its very start do. */
  readonly mark: string | undefined;
  /** From the start of the answer to the first name. */
  readonly open: string;
  /** Ends a name: one character or one control token. */
  readonly nameEnd: string;
  /** From there to the arguments, which are one JSON object. */
  readonly middle: string;
  /** After the arguments, up to where the model chooses to go on or not. */
  readonly close: string;
  /** What begins another call: the text that is the model's choice, and the rest up to the name. Undefined: one call an answer. */
  readonly next: { readonly choice: string; readonly rest: string } | undefined;
  /** The other choice; the end of the turn when empty. */
  readonly end: string;
}

/** What our own instructions teach a model whose template knows nothing of tools. */
export const GENERIC_SYNTAX: CallSyntax = {
  mark: '<tool_call>',
  open: '<tool_call>\n{"name": "',
  nameEnd: '"',
  middle: ', "arguments": ',
  close: '}\n</tool_call>',
  next: { choice: '\n', rest: '<tool_call>\n{"name": "' },
  end: '',
};

/**
 * The id of a call as models see it. It counts the calls of a conversation: ids of clients are random, and what a model reads must not
 * be, or the same request would not give the same answer. Mistral's templates refuse all but nine letters and digits.
 */
export const shownId = (number: number) => `call${String(number).padStart(5, '0')}`;
