import { CALL_ID, type CallSyntax } from './call-syntax.ts';
import type { TemplateMessage, TemplateTool } from './template-message.ts';

/** What a chat template itself does for tools. */
export interface ToolSupport {
  syntax: CallSyntax;
  /** The template prints arguments as it gets them, so it must get JSON text. */
  argumentsAsText: boolean;
  /** It takes one call in a message. */
  singleCalls: boolean;
  /** The end of the generation prompt that a turn with calls does not have, such as an opened thought. */
  withoutCalls: string;
}

export interface ProbeOptions {
  /** Undefined: the template refuses. */
  render: (messages: readonly TemplateMessage[], tools: readonly TemplateTool[]) => string | undefined;
  /** Texts of control tokens, longest first. */
  controlTexts: readonly string[];
  /** Texts of tokens that end an answer. */
  endTexts: readonly string[];
}

const QUESTION = 'probe-question';
const ANSWER = 'probe-answer';
const RESULT = 'probe-result';
const TOOL: TemplateTool = {
  type: 'function',
  function: {
    name: 'probe_tool',
    description: 'A probe.',
    parameters: {
      type: 'object',
      properties: { probe_parameter: { type: 'string', description: 'A probe.' } },
      required: ['probe_parameter'],
    },
  },
};

const nameOf = (index: number) => `probe_name_${index}`;
const argumentOf = (index: number) => `probe_value_${index}`;
const idOf = (index: number) => `probeid0${index}`;
const argumentsPattern = (index: number) => new RegExp(`\\{\\s*"probe_key"\\s*:\\s*"${argumentOf(index)}"\\s*\\}`);

/**
 * Learns from what the template makes of an invented conversation how its model writes calls. Undefined: it does not show
 * definitions, calls and results, or not in a form that can be decoded.
 */
export function learnToolSupport({ render, controlTexts, endTexts }: ProbeOptions): ToolSupport | undefined {
  const show = (...turns: readonly TemplateMessage[]) => {
    const text = render([{ role: 'user', content: QUESTION }, ...turns], [TOOL]);
    return text?.includes(QUESTION) ? text : undefined;
  };
  const afterQuestion = (text: string) => text.slice(text.lastIndexOf(QUESTION) + QUESTION.length);
  const withCalls = (count: number, asText: boolean) => {
    const text = show(...conversation(count, asText));
    return text === undefined ? undefined : afterQuestion(text);
  };

  const asked = show();
  if (!asked?.includes(TOOL.function.name) || !asked.includes('probe_parameter')) return undefined;
  const prompt = afterQuestion(asked);
  let argumentsAsText = false;
  let answered = withCalls(1, argumentsAsText);
  if (!answered?.includes(argumentOf(1))) {
    argumentsAsText = true;
    answered = withCalls(1, argumentsAsText);
  }
  if (answered === undefined) return undefined;
  const start = turnStart(prompt, answered);
  const single = dissect(answered.slice(start), 1, endTexts);
  if (!single) return undefined;
  const {
    before: [open],
    middle,
  } = single;
  const mark = findMark(open, controlTexts);
  const plain = show({ role: 'assistant', content: ANSWER });
  // What plain answers have too tells nothing.
  if (mark !== undefined && plain && afterQuestion(plain).includes(mark)) return undefined;
  if (endTexts.some((text) => open.includes(text) || middle.includes(text))) return undefined;
  const nameEnd = firstUnit(middle, controlTexts);
  if (nameEnd === '' || nameEnd === CALL_ID) return undefined;

  const several = withCalls(3, argumentsAsText);
  const parts = several === undefined ? undefined : dissect(several.slice(start), 3, endTexts);
  const following = parts && continuation(parts, { open, middle, controlTexts, endTexts });
  return {
    syntax: {
      mark,
      open,
      nameEnd,
      middle: middle.slice(nameEnd.length),
      ...(following ?? { close: single.tail, next: undefined, end: '' }),
    },
    argumentsAsText,
    singleCalls: ![1, 2, 3].every((index) => several?.includes(argumentOf(index))),
    withoutCalls: prompt.slice(start),
  };
}

function conversation(count: number, asText: boolean): TemplateMessage[] {
  const calls = Array.from({ length: count }, (_, at) => {
    const input = { probe_key: argumentOf(at + 1) };
    return {
      id: idOf(at + 1),
      type: 'function' as const,
      function: { name: nameOf(at + 1), arguments: asText ? JSON.stringify(input) : input },
    };
  });
  return [
    { role: 'assistant', content: '', tool_calls: calls },
    ...calls.map(({ id, function: { name } }) => ({ role: 'tool', content: RESULT, tool_call_id: id, name })),
  ];
}

/** Where the turn of a call leaves the generation prompt: at its end, or before something that only other turns begin with. */
function turnStart(prompt: string, answered: string): number {
  const shared = sharedLength(prompt, answered);
  if (shared === prompt.length) return shared;
  const tag = answered.lastIndexOf('<', shared - 1);
  return tag !== -1 && !answered.slice(tag, shared).includes('>') ? tag : shared;
}

interface Parts {
  /** Text before each name. */
  before: [string, ...string[]];
  middle: string;
  /** After the last arguments, to the end of the turn. */
  tail: string;
}

/** Cuts a turn at names and arguments. Undefined: they are not there, each once and in this order, or not printed alike. */
function dissect(turn: string, count: number, endTexts: readonly string[]): Parts | undefined {
  const before: string[] = [];
  const middles = new Set<string>();
  let rest = turn;
  for (let index = 1; index <= count; index++) {
    const found = argumentsPattern(index).exec(rest);
    const [lead, middle, ...more] = found ? rest.slice(0, found.index).split(nameOf(index)) : [];
    if (!found || lead === undefined || middle === undefined || more.length > 0) return undefined;
    before.push(lead.replaceAll(idOf(index), CALL_ID));
    middles.add(middle.replaceAll(idOf(index), CALL_ID));
    rest = rest.slice(found.index + found[0].length).replace(idOf(index), CALL_ID);
  }
  const resultAt = rest.indexOf(RESULT);
  const [first, ...others] = before;
  const [middle] = middles;
  if (first === undefined || middle === undefined || middles.size > 1 || resultAt === -1) return undefined;
  const ends = endTexts.map((text) => rest.indexOf(text)).filter((at) => at !== -1);
  return { before: [first, ...others], middle, tail: rest.slice(0, Math.min(resultAt, ...ends)) };
}

interface Known {
  open: string;
  middle: string;
  controlTexts: readonly string[];
  endTexts: readonly string[];
}

/** What stands between two calls, and what after the last. */
function continuation(
  { before, middle, tail }: Parts,
  known: Known,
): Pick<CallSyntax, 'close' | 'next' | 'end'> | undefined {
  const [open, second, third] = before;
  if (second === undefined || second !== third || open !== known.open || middle !== known.middle) return undefined;
  if (known.endTexts.some((text) => second.includes(text))) return undefined;
  const at = sharedUnits(second, tail, known.controlTexts);
  const next = second.slice(at);
  const choice = firstUnit(next, known.controlTexts);
  const end = firstUnit(tail.slice(at), known.controlTexts);
  if (choice === '' || choice === CALL_ID || choice === end) return undefined;
  return { close: tail.slice(0, at), next: { choice, rest: next.slice(choice.length) }, end };
}

/** The first control token of a text, or else its first character. */
function firstUnit(text: string, controlTexts: readonly string[]): string {
  return controlTexts.find((control) => text.startsWith(control)) ?? [...text.slice(0, 2)][0] ?? '';
}

/** Length of the text that both begin with, in characters and whole control tokens. */
function sharedUnits(a: string, b: string, controlTexts: readonly string[]): number {
  let at = 0;
  while (at < a.length) {
    const unit = firstUnit(a.slice(at), controlTexts);
    if (unit !== firstUnit(b.slice(at), controlTexts)) break;
    at += unit.length;
  }
  return at;
}

function sharedLength(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

/**
 * What shows a call wherever it stands: its first control token, or else all that is before the JSON. Undefined: there is only JSON,
 * or mere words, which any answer may hold.
 */
function findMark(open: string, controlTexts: readonly string[]): string | undefined {
  const lead = open.replace(/(\[\s*)?\{[^{]*$/, '').trim();
  const control = controlTexts.find((text) => lead.startsWith(text));
  const cuts = controlTexts.map((text) => lead.indexOf(text)).filter((at) => at > 0);
  const text = lead.slice(0, Math.min(lead.length, ...cuts)).trim();
  return control ?? (text.length > 2 && /[^\p{L}\p{N}\s]/u.test(text) ? text : undefined);
}
