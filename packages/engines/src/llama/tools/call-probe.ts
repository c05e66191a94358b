import { jsonForm, taggedForm } from './arguments-form.ts';
import { CALL_ID, type CallSyntax, firstUnit, sharedUnits } from './call-syntax.ts';
import { type Found, isShown, JSON_SHAPE, type ProbeShape, TAGGED_SHAPE, TEXT_SHAPE } from './probe-shapes.ts';

/** Messages and tools with the names that chat templates use. */
export interface TemplateMessage {
  role: string;
  content: string;
  name?: string;
  reasoning_content?: string;
  tool_call_id?: string;
  tool_calls?: readonly TemplateCall[];
}

export interface TemplateCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: unknown };
}

export interface TemplateTool {
  type: 'function';
  function: { name: string; description: string; parameters: Record<string, unknown> };
}

/** How a chat template supports tools. */
export interface ToolSupport {
  syntax: CallSyntax;
  /** The template prints arguments unchanged, so it needs JSON text. */
  argumentsAsText: boolean;
  /** A message holds at most one call. */
  singleCalls: boolean;
  /** The end of the generation prompt that turns with calls lack, such as an opened thought. */
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
const idOf = (index: number) => `probeid0${index}`;

/**
 * Learns how a model writes calls by rendering an invented conversation with its template. Undefined: the template does not show
 * definitions, calls and results, or not in a form that can be decoded.
 */
export function learnToolSupport({ render, controlTexts, endTexts }: ProbeOptions): ToolSupport | undefined {
  const show = (...turns: readonly TemplateMessage[]) => {
    const text = render([{ role: 'user', content: QUESTION }, ...turns], [TOOL]);
    return text?.includes(QUESTION) ? text.slice(text.lastIndexOf(QUESTION) + QUESTION.length) : undefined;
  };
  const withCalls = (count: number, { argumentsOf }: Pick<ProbeShape, 'argumentsOf'>) =>
    show(...conversation(count, argumentsOf));

  const asked = render([{ role: 'user', content: QUESTION }], [TOOL]);
  const prompt = show();
  if (!asked?.includes(TOOL.function.name) || !asked.includes('probe_parameter') || prompt === undefined)
    return undefined;
  const plain = show({ role: 'assistant', content: ANSWER });

  const learn = (shape: ProbeShape): ToolSupport | undefined => {
    const answered = withCalls(1, shape);
    if (answered === undefined) return undefined;
    const start = turnStart(prompt, answered);
    const single = dissect(answered.slice(start), { count: 1, shape, endTexts });
    if (!single) return undefined;
    const {
      before: [open],
      middle,
      tags,
    } = single;
    // Plain answers may begin with the same text, such as an empty thought, so it cannot mark a call.
    const common = plain === undefined ? 0 : sharedUnits(open, plain.slice(start), controlTexts);
    const mark = findMark(open.slice(common), { controlTexts, tagged: tags !== undefined });
    if (mark === undefined ? tags || open.slice(0, common).trim() !== '' : plain?.includes(mark)) return undefined;
    if (endTexts.some((text) => open.includes(text) || middle.includes(text))) return undefined;

    const several = withCalls(3, shape);
    const parts = several === undefined ? undefined : dissect(several.slice(start), { count: 3, shape, endTexts });
    const following = parts && continuation(parts, { open, middle, controlTexts, endTexts });
    const rest = following ?? { close: single.tail, next: undefined, end: '' };
    const form = tags
      ? taggedForm({ ...tags, middle, close: rest.close, controlTexts })
      : jsonForm({ middle, close: rest.close, controlTexts });
    if (!form) return undefined;
    if (form.arguments.kind === 'tagged') {
      const empty = withCalls(1, { argumentsOf: () => ({}) })
        ?.slice(start)
        .replaceAll(idOf(1), CALL_ID);
      const { lead, end } = form.arguments;
      if (!empty?.startsWith([open, nameOf(1), lead, end, form.close].join(''))) return undefined;
    }
    return {
      syntax: { mark, open, ...rest, ...form },
      argumentsAsText: shape === TEXT_SHAPE,
      singleCalls: ![1, 2, 3].every((index) => several !== undefined && isShown(several, index)),
      withoutCalls: prompt.slice(start),
    };
  };

  const asObject = withCalls(1, JSON_SHAPE);
  if (asObject === undefined || !isShown(asObject, 1)) return learn(TEXT_SHAPE);
  return learn(JSON_SHAPE) ?? learn(TAGGED_SHAPE);
}

function conversation(count: number, argumentsOf: ProbeShape['argumentsOf']): TemplateMessage[] {
  const calls = Array.from({ length: count }, (_, at) => ({
    id: idOf(at + 1),
    type: 'function' as const,
    function: { name: nameOf(at + 1), arguments: argumentsOf(at + 1) },
  }));
  return [
    { role: 'assistant', content: '', tool_calls: calls },
    ...calls.map(({ id, function: { name } }) => ({ role: 'tool', content: RESULT, tool_call_id: id, name })),
  ];
}

/** Where a turn with a call departs from the generation prompt: at its end, or before text that only other turns begin with. */
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
  tags: Found['tags'];
  /** After the last arguments, to the end of the turn. */
  tail: string;
}

interface Cut {
  count: number;
  shape: ProbeShape;
  endTexts: readonly string[];
}

/** Splits a turn at names and arguments. Undefined: they do not occur once each in this order, or are printed differently. */
function dissect(turn: string, { count, shape, endTexts }: Cut): Parts | undefined {
  const before: string[] = [];
  const middles = new Set<string>();
  let tags: Found['tags'];
  let rest = turn;
  for (let index = 1; index <= count; index++) {
    const found = shape.find(rest, index);
    const [lead, middle, ...more] = found ? rest.slice(0, found.start).split(nameOf(index)) : [];
    if (!found || lead === undefined || middle === undefined || more.length > 0) return undefined;
    before.push(lead.replaceAll(idOf(index), CALL_ID));
    middles.add(middle.replaceAll(idOf(index), CALL_ID));
    tags = found.tags;
    rest = rest.slice(found.end).replace(idOf(index), CALL_ID);
  }
  const resultAt = rest.indexOf(RESULT);
  const [first, ...others] = before;
  const [middle] = middles;
  if (first === undefined || middle === undefined || middles.size > 1 || resultAt === -1) return undefined;
  const ends = endTexts.map((text) => rest.indexOf(text)).filter((at) => at !== -1);
  return { before: [first, ...others], middle, tags, tail: rest.slice(0, Math.min(resultAt, ...ends)) };
}

interface Known {
  open: string;
  middle: string;
  controlTexts: readonly string[];
  endTexts: readonly string[];
}

/** The text between two calls and after the last one. */
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

function sharedLength(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

/**
 * The text that marks a call anywhere in an answer: its first control token, its first tag, or else everything before the JSON.
 * Undefined: there is only JSON, or ordinary words that any answer may contain.
 */
function findMark(
  open: string,
  { controlTexts, tagged }: { controlTexts: readonly string[]; tagged: boolean },
): string | undefined {
  const lead = tagged ? firstUnit(open.trim(), controlTexts) : open.replace(/(\[\s*)?\{[^{]*$/, '').trim();
  const control = controlTexts.find((text) => lead.startsWith(text));
  const cuts = controlTexts.map((text) => lead.indexOf(text)).filter((at) => at > 0);
  const text = lead.slice(0, Math.min(lead.length, ...cuts)).trim();
  return control ?? (text.length > 2 && /[^\p{L}\p{N}\s]/u.test(text) ? text : undefined);
}
