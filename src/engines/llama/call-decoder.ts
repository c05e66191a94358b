import type { ChatEvent } from '../engine.ts';
import { type CallableTool, type CallPlan, NEXT_GRAMMAR, nameGrammar } from './tool-calls.ts';
import { CALL_CLOSE, CALL_OPEN } from './tool-prompt.ts';

/** Calls in one answer; a weak model would not come to an end by itself. */
const MAX_CALLS = 16;

type CallDelta = Extract<ChatEvent, { type: 'tool-call-delta' }>;

export interface CallStep {
  events: CallDelta[];
  /** Text without an alternative: it is put into the context instead of being generated. */
  insert?: string;
  /** No more calls. */
  done: boolean;
}

/**
 * Decodes tool calls in phases: choose a name, write the arguments, choose whether to go on. Each phase has its own grammar; the
 * fixed text between them costs no decoding step.
 */
export interface CallDecoder {
  /** Starts the first call; the opening mark is in the context already. */
  open(): { insert: string };
  /** Text generated under the grammar of the current phase. */
  push(text: string): CallStep;
  /** What generation must follow now. */
  readonly grammar: string;
  /** At least one call was written and none is half done. */
  readonly complete: boolean;
}

type Phase = { type: 'name' } | { type: 'arguments'; tool: CallableTool } | { type: 'next' };

export function createCallDecoder(plan: CallPlan, newId: () => string): CallDecoder {
  let phase: Phase = { type: 'name' };
  let pending = '';
  let json = createJsonEnd();
  const calls = createCallLog(newId);

  const startArguments = (tool: CallableTool): string => {
    phase = { type: 'arguments', tool };
    json = createJsonEnd();
    calls.begin(tool.name);
    return ', "arguments": ';
  };
  /** Everything up to the next choice that is the model's. */
  const startCall = (): string => {
    const [only] = plan.tools;
    phase = { type: 'name' };
    const head = '\n{"name": "';
    return plan.tools.length === 1 && only ? `${head}${only.name}"${startArguments(only)}` : head;
  };

  const steps: Record<Phase['type'], (text: string) => CallStep> = {
    name(text) {
      pending += text;
      const tool = plan.tools.find(({ name }) => pending === `${name}"`);
      if (tool === undefined) return { events: [], done: false };
      pending = '';
      return { events: [], insert: startArguments(tool), done: false };
    },
    arguments(text) {
      const end = json.find(text);
      const events = calls.write(end === -1 ? text : text.slice(0, end));
      if (end === -1) return { events, done: false };
      const repeated = calls.finish();
      phase = { type: 'next' };
      if (!plan.parallel || repeated || calls.count >= MAX_CALLS) return { events, done: true };
      return { events, insert: `}\n${CALL_CLOSE}`, done: false };
    },
    next: () => ({ events: [], insert: CALL_OPEN + startCall(), done: false }),
  };

  return {
    open: () => ({ insert: startCall() }),
    push: (text) => (text === '' ? { events: [], done: false } : steps[phase.type](text)),
    get complete() {
      return calls.count > 0 && phase.type === 'next';
    },
    get grammar() {
      if (phase.type === 'name') return nameGrammar(plan.tools);
      return phase.type === 'next' ? NEXT_GRAMMAR : phase.tool.grammar;
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
