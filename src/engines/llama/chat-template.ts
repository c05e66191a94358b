import { Template } from '@huggingface/jinja';
import { errors } from '../../errors/errors.ts';
import type { ChatMessage, ToolDefinition } from '../engine.ts';
import {
  genericMessages,
  nativeMessage,
  nativeTool,
  rendersTools,
  type TemplateMessage,
  type TemplateTool,
  usesTools,
} from './tool-prompt.ts';

/** A rendered prompt: `literal` text came from a client and never becomes a control token. */
export interface PromptPiece {
  text: string;
  literal: boolean;
}

export interface RenderInput {
  messages: readonly ChatMessage[];
  tools?: readonly ToolDefinition[] | undefined;
}

export interface ChatTemplate {
  render(input: RenderInput): PromptPiece[];
}

export interface ChatTemplateOptions {
  /** The model's own Jinja template. */
  source: string | undefined;
  bosToken: string;
  eosToken: string;
  /** Texts of control tokens, longest first. */
  controlTexts: readonly string[];
}

/** For a model file without a template: plain role headings, which base models continue well. */
const GENERIC_TEMPLATE = `{{ bos_token }}{% for message in messages %}### {{ message.role | capitalize }}:
{{ message.content }}

{% endfor %}{% if add_generation_prompt %}### Assistant:
{% endif %}`;

// Private-use characters: they stand for a control text inside client content while the template runs.
const OPEN = '\u{F0BA0}';
const CLOSE = '\u{F0BAB}';
const MARKER = new RegExp(`${OPEN}(\\d+)${CLOSE}`, 'u');
const MARKER_CHARACTERS = new RegExp(`[${OPEN}${CLOSE}]`, 'gu');

type Run = (messages: readonly TemplateMessage[], tools?: readonly TemplateTool[]) => string;

export function createChatTemplate({ source, bosToken, eosToken, controlTexts }: ChatTemplateOptions): ChatTemplate {
  const template = new Template(source ?? GENERIC_TEMPLATE);
  const run: Run = (messages, tools) =>
    template.render({
      messages,
      ...(tools ? { tools } : {}),
      add_generation_prompt: true,
      bos_token: bosToken,
      eos_token: eosToken,
    });
  const attempt: Run = (messages, tools) => {
    try {
      return run(messages, tools);
    } catch {
      return '';
    }
  };
  const takesTools = rendersTools(attempt);
  const controlPattern =
    controlTexts.length > 0 ? new RegExp(controlTexts.map(escapePattern).join('|'), 'gu') : undefined;
  const takesSystem = attempt([
    { role: 'system', content: 'PROBE' },
    { role: 'user', content: 'x' },
  ]).includes('PROBE');

  return {
    render({ messages, tools }) {
      const guard = createEscape(controlPattern);
      const native = takesTools && (tools !== undefined || messages.some(usesTools));
      const plain = native ? messages.map(nativeMessage) : genericMessages(messages, tools);
      const escaped = plain.map((message) => guard.value(message) as TemplateMessage);
      const definitions = native ? tools?.map((tool) => guard.value(nativeTool(tool)) as TemplateTool) : undefined;
      return guard.split(renderOrMerge(run, takesSystem ? escaped : foldSystem(escaped), definitions));
    },
  };
}

/** Some templates insist that user and assistant take turns: neighbours of one role become one message then. */
function renderOrMerge(run: Run, messages: readonly TemplateMessage[], tools?: readonly TemplateTool[]): string {
  try {
    return run(messages, tools);
  } catch {
    try {
      return run(mergeNeighbours(messages), tools);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw errors.invalidParameter('messages', `The chat template of this model refuses these messages: ${reason}`);
    }
  }
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
 * Client text may hold the text of a control token, such as an end of turn. It is replaced by a marker before the template
 * runs, and the rendered prompt is cut at the markers, so that it can be tokenized as the plain characters it is.
 */
function createEscape(pattern: RegExp | undefined) {
  const replaced: string[] = [];
  const text = (value: string): string => {
    const clean = value.replace(MARKER_CHARACTERS, '');
    return pattern ? clean.replace(pattern, (found) => `${OPEN}${replaced.push(found) - 1}${CLOSE}`) : clean;
  };
  const value = (input: unknown): unknown => {
    if (typeof input === 'string') return text(input);
    if (Array.isArray(input)) return input.map(value);
    if (typeof input !== 'object' || input === null) return input;
    return Object.fromEntries(Object.entries(input).map(([key, item]) => [text(key), value(item)]));
  };
  const split = (rendered: string): PromptPiece[] =>
    rendered
      .split(MARKER)
      .map((part, index) =>
        index % 2 === 0 ? { text: part, literal: false } : { text: replaced[Number(part)] ?? '', literal: true },
      )
      .filter((piece) => piece.text !== '');
  return { value, split };
}

const escapePattern = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
