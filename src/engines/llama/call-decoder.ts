import type { ChatEvent } from '../engine.ts';
import { CALL_ID, type CallSyntax, shownId } from './call-syntax.ts';
import type { PromptPiece } from './chat-template.ts';
import { type CallableTool, type CallPlan, choiceGrammar, nameGrammar } from './tool-calls.ts';

/** Calls in one answer; a weak model would not come to an end by itself. */
const MAX_CALLS = 16;

type CallDelta = Extract<ChatEvent, { type: 'tool-call-delta' }>;

export interface CallStep {
  events: CallDelta[];
  /** Text without an alternative: it is put into the context instead of being generated. */
  insert?: PromptPiece[];
  /** No more calls. */
  done: boolean;
}

/**
 * Decodes tool calls in phases: choose a name, write the arguments, choose whether to go on. Each phase has its own grammar; the
 * fixed text between them costs no decoding step.
 */
export interface CallDecoder {
  /** Starts the first call; so much of what opens it is in the context already. */
  open(written: string): PromptPiece[];
  /** The same after the model wrote everything up to the end of the name. */
  openNamed(name: string): PromptPiece[];
  /** Text generated under the grammar of the current phase. */
  push(text: string): CallStep;
  /** What generation must follow now. */
  readonly grammar: string;
  /** At least one call was written and none is half done. */
  readonly complete: boolean;
}

type Phase = { type: 'name' } | { type: 'arguments'; tool: CallableTool } | { type: 'next' };

export interface CallDecoderOptions {
  plan: CallPlan;
  syntax: CallSyntax;
  /** Calls in the conversation so far. */
  callsBefore: number;
  newId: () => string;
}

export function createCallDecoder({ plan, syntax, callsBefore, newId }: CallDecoderOptions): CallDecoder {
  const next = plan.parallel ? syntax.next : undefined;
  let phase: Phase = { type: 'name' };
  let pending = '';
  let json = createJsonEnd();
  const calls = createCallLog(newId);

  let number = callsBefore + 1;
  const fixed = (text: string): PromptPiece => ({ text: text.replaceAll(CALL_ID, shownId(number)), literal: false });
  const startArguments = (tool: CallableTool): PromptPiece[] => {
    phase = { type: 'arguments', tool };
    pending = '';
    json = createJsonEnd();
    calls.begin(tool.name);
    return [fixed(syntax.middle)];
  };
  /** Everything up to the next choice that is the model's. */
  const startCall = (lead: string): PromptPiece[] => {
    const [only] = plan.tools;
    phase = { type: 'name' };
    pending = '';
    if (plan.tools.length !== 1 || !only) return [fixed(lead)];
    const [middle] = startArguments(only);
    return [fixed(lead), { text: only.name, literal: true }, fixed(syntax.nameEnd + (middle?.text ?? ''))];
  };

  const steps: Record<Phase['type'], (text: string) => CallStep> = {
    name(text) {
      pending += text;
      const tool = plan.tools.find(({ name }) => pending === name + syntax.nameEnd);
      return tool ? { events: [], insert: startArguments(tool), done: false } : { events: [], done: false };
    },
    arguments(text) {
      const end = json.find(text);
      const events = calls.write(end === -1 ? text : text.slice(0, end));
      if (end === -1) return { events, done: false };
      const repeated = calls.finish();
      phase = { type: 'next' };
      pending = '';
      if (!next || repeated || calls.count >= MAX_CALLS) return { events, done: true };
      return { events, insert: [fixed(syntax.close)], done: false };
    },
    next(text) {
      pending += text;
      if (!next?.choice.startsWith(pending)) return { events: [], done: true };
      if (pending !== next.choice) return { events: [], done: false };
      number++;
      return { events: [], insert: startCall(next.rest), done: false };
    },
  };

  return {
    open: (written) => startCall(syntax.open.slice(syntax.open.indexOf(written) + written.length)),
    openNamed(name) {
      const tool = plan.tools.find((each) => each.name === name);
      if (!tool) throw new Error(`The call names '${name}', which is not among the tools`);
      return startArguments(tool);
    },
    push: (text) => (text === '' ? { events: [], done: false } : steps[phase.type](text)),
    get complete() {
      return calls.count > 0 && phase.type === 'next';
    },
    get grammar() {
      if (phase.type === 'name') return nameGrammar(plan.tools, syntax);
      return phase.type === 'next' ? choiceGrammar(next?.choice ?? '', syntax.end) : phase.tool.grammar;
    },
  };
}

/**
 * The calls of one answer as deltas. Weak models repeat a call word for word: a call is held back while it could still be such a
 * repetition, and dropped when it is.
 */
function createCallLog(newId: () => string) {
  const complete: { name: string; text: string }[] = [];
  let current = { name: '', text: '' };
  let shown = false;
  const mayRepeat = () => complete.some((call) => call.name === current.name && call.text.startsWith(current.text));
  return {
    get count() {
      return complete.length;
    },
    begin(name: string) {
      current = { name, text: '' };
      shown = false;
    },
    write(text: string): CallDelta[] {
      const index = complete.length;
      current = { ...current, text: current.text + text };
      if (shown) return [{ type: 'tool-call-delta', index, argumentsDelta: text }];
      if (mayRepeat()) return [];
      shown = true;
      return [
        { type: 'tool-call-delta', index, id: newId(), name: current.name, argumentsDelta: '' },
        { type: 'tool-call-delta', index, argumentsDelta: current.text },
      ];
    },
    /** Whether the call repeated an earlier one. */
    finish(): boolean {
      if (shown) complete.push(current);
      return !shown;
    },
  };
}

/** Finds where a JSON object ends in text that arrives in pieces. */
function createJsonEnd() {
  let depth = 0;
  let inString = false;
  let escaped = false;
  return {
    find(text: string): number {
      for (let at = 0; at < text.length; at++) {
        const character = text[at];
        if (escaped) escaped = false;
        else if (inString && character === '\\') escaped = true;
        else if (character === '"') inString = !inString;
        else if (inString) continue;
        else if (character === '{' || character === '[') depth++;
        else if ((character === '}' || character === ']') && --depth === 0) return at + 1;
      }
      return -1;
    },
  };
}
