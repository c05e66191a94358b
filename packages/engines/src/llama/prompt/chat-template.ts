import type { ChatMessage, ToolDefinition } from '@baobab/core/engine/engine.ts';
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
const MARKER_CHARACTERS = new RegExp(`[${OPEN}${CLOSE}]`, 'gu');

type Run = (messages: readonly TemplateMessage[], tools?: readonly TemplateTool[], thinks?: false) => string;

/** Ends a prompt that has opened the thoughts of the answer. */
const OPENED_THOUGHTS = /<think>\s*$/;

export function createChatTemplate(options: ChatTemplateOptions): ChatTemplate {
  const { source = GENERIC_TEMPLATE, toolSource, controlTexts, endTexts } = options;
  const run = createRun(source, options);
  const runWithTools = toolSource === undefined ? run : createRun(toolSource, options);
  const knowsThoughts = source.includes('think>');
  const thinkingAfter = (prompt: string): Thinking | undefined => {
    if (!knowsThoughts) return undefined;
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
    render: (messages, tools) => attempt(() => runWithTools(messages, tools)),
    controlTexts,
    endTexts,
  });

  const renderNative = ({ messages, tools, fits, forcesCall, thinks }: RenderInput): RenderedPrompt | undefined => {
    if (!support || (!tools && !messages.some(usesTools)) || fits?.(support.syntax) === false) return undefined;
    const guard = createEscape(controlPattern);
    const callNumbers = numberCalls(messages);
    const turns = prepare(nativeMessages(messages, { ...support, callNumbers }).map((turn) => guard.value(turn)));
    const definitions = tools?.map((tool) => guard.value(nativeTool(tool)));
    const text = attempt(() => runOrMerge(runWithTools, turns, { tools: definitions, thinks }));
    if (text === undefined) return undefined;
    const { withoutCalls, syntax } = support;
    const cut = forcesCall && text.endsWith(withoutCalls) ? withoutCalls.length : 0;
    return {
      parts: guard.split(text.slice(0, text.length - cut)),
      syntax,
      callsBefore: callNumbers.size,
      thinking: thinkingAfter(text),
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
        const text = runOrMerge(run, turns, { thinks: input.thinks });
        return {
          parts: guard.split(text),
          syntax: GENERIC_SYNTAX,
          callsBefore: 0,
          thinking: thinkingAfter(text),
        };
      } catch (error) {
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
  return (messages, tools, thinks) =>
    template.render({
      messages,
      ...(tools ? { tools } : {}),
      ...(thinks === false ? { enable_thinking: false } : {}),
      add_generation_prompt: true,
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
function runOrMerge(
  run: Run,
  messages: readonly TemplateMessage[],
  { tools, thinks }: { tools?: readonly TemplateTool[] | undefined; thinks?: false | undefined },
): string {
  const merged = mergeNeighbours(messages);
  return (
    attempt(() => run(messages, tools, thinks)) ??
    attempt(() => run(merged, tools, thinks)) ??
    run(merged, tools ?? [], thinks)
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
