import type { ChatMessage, ChatRequest, ToolDefinition } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { Template } from '@huggingface/jinja';
import type { PromptPart } from '../text/prompt-tokenizer.ts';
import { learnToolSupport, type TemplateMessage, type TemplateTool } from '../tools/call-probe.ts';
import { type CallSyntax, escapePattern, GENERIC_SYNTAX } from '../tools/call-syntax.ts';
import { genericMessages, nativeMessages, nativeTool, numberCalls, usesTools } from './tool-prompt.ts';

export interface RenderInput {
  messages: readonly ChatMessage[];
  tools?: readonly ToolDefinition[] | undefined;
  /** Whether the answer can write its calls in this syntax. The generic syntax always can. */
  fits?: ((syntax: CallSyntax) => boolean) | undefined;
  /** The answer will begin with a call. */
  forcesCall?: boolean | undefined;
  /** False: a model that thinks before it answers should not, if its template can say so. */
  thinks?: false | undefined;
  answerStart?: ChatRequest['answerStart'];
}

/** How the answer of a model that thinks begins: it opens its thoughts itself, or the prompt has opened them already. */
export type Thinking = 'opens' | 'opened';

export interface RenderedPrompt {
  parts: PromptPart[];
  /** How the answer writes calls. */
  syntax: CallSyntax;
  /** Calls in the messages. */
  callsBefore: number;
  /** Undefined: the template knows no thoughts. */
  thinking: Thinking | undefined;
}

export interface ChatTemplate {
  render(input: RenderInput): RenderedPrompt;
}

export interface ChatTemplateOptions {
  /** The model's own Jinja template. */
  source: string | undefined;
  /** A second template for conversations with tools. */
  toolSource?: string | undefined;
  bosToken: string;
  eosToken: string;
  /** Texts of control tokens, longest first. */
  controlTexts: readonly string[];
  /** Texts of tokens that end an answer. */
  endTexts: readonly string[];
}

/** For a model file without a template: plain role headings, which base models continue well. */
const GENERIC_TEMPLATE = `{{ bos_token }}{% for message in messages %}### {{ message.role | capitalize }}:
{{ message.content }}

{% endfor %}{% if add_generation_prompt %}### Assistant:
{% endif %}`;

// Private-use characters that replace control texts in client content while the template runs.
const OPEN = '\u{F0BA0}';
const CLOSE = '\u{F0BAB}';
const MARKER = new RegExp(`${OPEN}(\\d+)${CLOSE}`, 'u');
/** Ends the message that the answer continues: templates write something after it. */
const CONTINUED = '\u{F0BAC}';
const MARKER_CHARACTERS = new RegExp(`[${OPEN}${CLOSE}${CONTINUED}]`, 'gu');

type Run = (messages: readonly TemplateMessage[], options?: RunOptions) => string;

interface RunOptions extends Pick<RenderInput, 'thinks' | 'answerStart'> {
  tools?: readonly TemplateTool[] | undefined;
}

/** Ends a prompt that has opened the thoughts of the answer. */
const OPENED_THOUGHTS = /<think>\s*$/;
/** In a message that is continued. */
const OPEN_THOUGHTS = /<think>(?!.*<\/think>)/s;

export function createChatTemplate(options: ChatTemplateOptions): ChatTemplate {
  const { source = GENERIC_TEMPLATE, toolSource, controlTexts, endTexts } = options;
  const run = createRun(source, options);
  const runWithTools = toolSource === undefined ? run : createRun(toolSource, options);
  const knowsThoughts = source.includes('think>');
  const thinkingAfter = (prompt: string, { messages, answerStart }: RenderInput): Thinking | undefined => {
    if (!knowsThoughts) return undefined;
    if (answerStart === 'continued') return OPEN_THOUGHTS.test(messages.at(-1)?.content ?? '') ? 'opened' : undefined;
    return OPENED_THOUGHTS.test(prompt) ? 'opened' : 'opens';
  };
  const controlPattern =
    controlTexts.length > 0 ? new RegExp(controlTexts.map(escapePattern).join('|'), 'gu') : undefined;
  const takesSystem = attempt(() =>
    run([
      { role: 'system', content: 'PROBE' },
      { role: 'user', content: 'x' },
    ]),
  )?.includes('PROBE');
  const prepare = (messages: readonly TemplateMessage[]) => (takesSystem ? messages : foldSystem(messages));
  const support = learnToolSupport({
    render: (messages, tools) => attempt(() => runWithTools(messages, { tools })),
    controlTexts,
    endTexts,
  });

  const renderNative = (input: RenderInput): RenderedPrompt | undefined => {
    const { messages, tools, fits, forcesCall, thinks, answerStart } = input;
    if (!support || (!tools && !messages.some(usesTools)) || fits?.(support.syntax) === false) return undefined;
    const guard = createEscape(controlPattern);
    const callNumbers = numberCalls(messages);
    const turns = prepare(nativeMessages(messages, { ...support, callNumbers }).map((turn) => guard.value(turn)));
    const definitions = tools?.map((tool) => guard.value(nativeTool(tool)));
    const text = attempt(() => runUpTo(runWithTools, turns, { tools: definitions, thinks, answerStart }));
    if (text === undefined) return undefined;
    const { withoutCalls, syntax } = support;
    const cut = forcesCall && text.endsWith(withoutCalls) ? withoutCalls.length : 0;
    return {
      parts: guard.split(text.slice(0, text.length - cut)),
      syntax,
      callsBefore: callNumbers.size,
      thinking: thinkingAfter(text, input),
    };
  };

  return {
    render(input) {
      // A template may support tools and still refuse these definitions or this history.
      const native = renderNative(input);
      if (native) return native;
      const guard = createEscape(controlPattern);
      const turns = prepare(genericMessages(input.messages, input.tools).map((turn) => guard.value(turn)));
      try {
        const { thinks, answerStart } = input;
        const text = runUpTo(run, turns, { thinks, answerStart });
        return {
          parts: guard.split(text),
          syntax: GENERIC_SYNTAX,
          callsBefore: 0,
          thinking: thinkingAfter(text, input),
        };
      } catch (error) {
        if (error instanceof ApiError) throw error;
        const reason = error instanceof Error ? error.message : String(error);
        throw errors.invalidParameter(
          ['messages'],
          `The chat template of this model refuses these messages: ${reason}`,
        );
      }
    },
  };
}

function createRun(source: string, { bosToken, eosToken }: ChatTemplateOptions): Run {
  const template = new Template(source);
  return (messages, { tools, thinks, answerStart } = {}) =>
    template.render({
      messages,
      ...(tools ? { tools } : {}),
      ...(thinks === false ? { enable_thinking: false } : {}),
      add_generation_prompt: answerStart === undefined,
      bos_token: bosToken,
      eos_token: eosToken,
    });
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

/**
 * Some templates require that user and assistant take turns, so consecutive messages of one role are merged. Others fail without
 * `tools`.
 */
function runOrMerge(run: Run, messages: readonly TemplateMessage[], options: RunOptions): string {
  const merged = mergeNeighbours(messages);
  return (
    attempt(() => run(messages, options)) ??
    attempt(() => run(merged, options)) ??
    run(merged, { ...options, tools: options.tools ?? [] })
  );
}

/** The prompt, up to the end of the last message if the answer continues it. */
function runUpTo(run: Run, messages: readonly TemplateMessage[], options: RunOptions): string {
  const last = messages.at(-1);
  if (options.answerStart !== 'continued' || last === undefined) return runOrMerge(run, messages, options);
  const marked = [...messages.slice(0, -1), { ...last, content: last.content + CONTINUED }];
  const [text = '', end] = runOrMerge(run, marked, options).split(CONTINUED, 2);
  if (end !== undefined) return text;
  throw errors.unsupportedParameter(
    ['answerStart'],
    'The chat template of this model has no place for a message that is continued.',
  );
}

/** For templates without a system role: instructions go in front of the first user message. */
function foldSystem(messages: readonly TemplateMessage[]): TemplateMessage[] {
  const instructions = messages.filter((message) => message.role === 'system').map((message) => message.content);
  const rest = messages.filter((message) => message.role !== 'system');
  if (instructions.length === 0) return rest;
  const at = rest.findIndex((message) => message.role === 'user');
  if (at === -1) return [{ role: 'user', content: instructions.join('\n\n') }, ...rest];
  return rest.map((message, index) =>
    index === at ? { ...message, content: [...instructions, message.content].join('\n\n') } : message,
  );
}

function mergeNeighbours(messages: readonly TemplateMessage[]): TemplateMessage[] {
  const merged: TemplateMessage[] = [];
  for (const message of messages) {
    const last = merged.at(-1);
    const joins = last?.role === message.role && !last.tool_calls && !message.tool_calls && message.role !== 'tool';
    if (last && joins) merged[merged.length - 1] = { ...last, content: `${last.content}\n\n${message.content}` };
    else merged.push(message);
  }
  return merged;
}

/**
 * Client text may contain the text of a control token, such as an end of turn. It is replaced by a marker before the template runs.
 * The rendered prompt is split at the markers, so that such text is tokenized as plain characters.
 */
function createEscape(pattern: RegExp | undefined) {
  const replaced: string[] = [];
  const text = (value: string): string => {
    const clean = value.replace(MARKER_CHARACTERS, '');
    return pattern ? clean.replace(pattern, (found) => `${OPEN}${replaced.push(found) - 1}${CLOSE}`) : clean;
  };
  const anyValue = (input: unknown): unknown => {
    if (typeof input === 'string') return text(input);
    if (Array.isArray(input)) return input.map(anyValue);
    if (typeof input !== 'object' || input === null) return input;
    return Object.fromEntries(Object.entries(input).map(([key, item]) => [text(key), anyValue(item)]));
  };
  const value = <T extends TemplateMessage | TemplateTool>(input: T) => anyValue(input) as T;
  const split = (rendered: string): PromptPart[] =>
    rendered
      .split(MARKER)
      .map((part, index) =>
        index % 2 === 0 ? { text: part, literal: false } : { text: replaced[Number(part)] ?? '', literal: true },
      )
      .filter((part) => part.text !== '');
  return { value, split };
}
