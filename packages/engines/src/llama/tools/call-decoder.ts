import type { ChatEvent } from '@baobab/core/engine/engine.ts';
import type { PromptPart } from '../text/prompt-tokenizer.ts';
import { type CallForm, type NameEnding, nameGrammar, nextCallGrammar } from './call-form.ts';
import { type ArgumentsReader, CALL_ID, type CallSyntax, shownId } from './call-syntax.ts';

/** Calls in one answer. A weak model might never stop. */
const MAX_CALLS = 16;

type CallDelta = Extract<ChatEvent, { type: 'tool-call-delta' }>;

export interface CallStep {
  events: CallDelta[];
  /** Fixed text, which is put into the context instead of being generated. */
  insert?: PromptPart[];
  /** No more calls. */
  done: boolean;
}

/**
 * Decodes tool calls in phases: choose a name, write the arguments, choose whether to continue. Each phase has its own grammar; fixed
 * text between them costs no decoding step.
 */
export interface CallDecoder {
  /** Starts the first call. `written`: the part of the opening that is already in the context. */
  open(written: string): PromptPart[];
  /** The same after the model wrote everything up to the end of the name. */
  openNamed(name: string): PromptPart[];
  /** Text generated under the grammar of the current phase. */
  push(text: string): CallStep;
  /** The grammar of the current phase. */
  readonly grammar: string;
  /** At least one call was written and none is incomplete. */
  readonly complete: boolean;
}

type Phase = { type: 'name' } | { type: 'arguments'; grammar: string; reader: ArgumentsReader } | { type: 'next' };

export interface CallDecoderOptions {
  /** The tools that may be called. */
  forms: readonly CallForm[];
  syntax: CallSyntax;
  /** The answer had to begin with a call. */
  forced: boolean;
  /** Whether more than one call may follow. Undefined: the client has not said. */
  parallel: boolean | undefined;
  /** Calls in the conversation so far. */
  callsBefore: number;
  newId: () => string;
}

export function createCallDecoder(options: CallDecoderOptions): CallDecoder {
  const { forms, syntax, forced, parallel, callsBefore, newId } = options;
  // Small models that must call do not stop: they wrote up to 12 calls. Where they close a list of calls themselves, they do.
  const mayContinue = parallel ?? (!forced || syntax.end !== '');
  const next = mayContinue ? syntax.next : undefined;
  let phase: Phase = { type: 'name' };
  let pending = '';
  const calls = createCallLog(newId);

  let number = callsBefore + 1;
  const fixed = (text: string): PromptPart => ({ text: text.replaceAll(CALL_ID, shownId(number)), literal: false });
  const startArguments = ({ name, grammar, createReader }: CallForm) => {
    phase = { type: 'arguments', grammar, reader: createReader() };
    calls.begin(name);
  };
  /** Everything up to the model's next choice. */
  const startCall = (lead: string): PromptPart[] => {
    const [form] = forms;
    const [ending] = form?.endings ?? [];
    phase = { type: 'name' };
    pending = '';
    const chosen = forms.length === 1 && form?.endings.length === 1;
    if (!chosen || ending?.insert === undefined) return [fixed(lead)];
    startArguments(form);
    return [fixed(lead), { text: form.name, literal: true }, fixed(ending.text + ending.insert)];
  };
  const endCall = (events: CallDelta[]): CallStep => {
    const repeated = calls.finish();
    phase = { type: 'next' };
    pending = '';
    if (!next || repeated || calls.count >= MAX_CALLS) return { events, done: true };
    return { events, insert: [fixed(syntax.close)], done: false };
  };
  const endName = (form: CallForm, { insert }: NameEnding): CallStep => {
    startArguments(form);
    return insert === undefined ? endCall(calls.write('{}')) : { events: [], insert: [fixed(insert)], done: false };
  };

  const steps: Record<Phase['type'], (text: string) => CallStep> = {
    name(text) {
      pending += text;
      for (const form of forms) {
        const ending = form.endings.find((each) => pending === form.name + each.text);
        if (ending) return endName(form, ending);
      }
      return { events: [], done: false };
    },
    arguments(text) {
      if (phase.type !== 'arguments') throw new Error('No arguments are expected');
      const { json, done } = phase.reader.read(text);
      const events = json === '' ? [] : calls.write(json);
      return done ? endCall(events) : { events, done: false };
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
      const form = forms.find((each) => each.name === name);
      const ending = form?.endings[0];
      if (!form || !ending) throw new Error(`The call names '${name}', which is not among the tools`);
      return endName(form, ending).insert ?? [];
    },
    push: (text) => (text === '' ? { events: [], done: false } : steps[phase.type](text)),
    get complete() {
      return calls.count > 0 && phase.type === 'next';
    },
    get grammar() {
      if (phase.type === 'name') return nameGrammar(forms);
      return phase.type === 'next' ? nextCallGrammar(next?.choice ?? '', syntax.end) : phase.grammar;
    },
  };
}

/**
 * The calls of one answer as deltas. Weak models repeat calls word for word. A call is held back while it may be such a repetition,
 * and dropped if it is.
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
