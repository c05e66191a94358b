import type { ChatEvent, TokenLogprob } from '@baobab/core/engine/engine.ts';
import { createWholeCall } from '@baobab/core/engine/written-calls.ts';
import type { PromptPart } from '../text/prompt-tokenizer.ts';
import { createCallDecoder } from '../tools/call-decoder.ts';
import type { CallForm } from '../tools/call-form.ts';
import { createOpening } from '../tools/call-opening.ts';
import type { CallSyntax } from '../tools/call-syntax.ts';
import type { CallPlan } from '../tools/tool-calls.ts';
import { createLogprobQueue } from './logprobs.ts';
import { createTextStream } from './text-stream.ts';

export interface OutputOptions {
  stop: readonly string[] | undefined;
  calls: OutputCalls | undefined;
  syntax: CallSyntax;
  /** Calls in the conversation so far. */
  callsBefore: number;
  dropLeadingSpace: boolean;
  /** Take an answer that is nothing but a call in JSON for a call, even if the template writes calls in another way. */
  acceptWholeCalls: boolean;
  newCallId: () => string;
}

export interface OutputCalls extends Pick<CallPlan, 'forced' | 'parallel'> {
  forms: readonly CallForm[];
}

export interface OutputStep {
  events: readonly ChatEvent[];
  /** Generation is over. */
  done: boolean;
  /** The stop sequence of the request that ended it. */
  stopSequence?: string;
  /** Text to put into the context after the token just read. */
  insert?: PromptPart[];
  /** The part of that token to keep, if it goes beyond the opening of a call. */
  kept?: string;
}

export interface WrittenToken {
  bytes: Uint8Array;
  /** Text of a control token. */
  control?: string | undefined;
  logprob?: TokenLogprob | undefined;
}

/** Turns generated tokens into events: text until the model opens a call, tool calls from there on. */
export interface Output {
  /** For a forced call: the text before everything generated. */
  readonly lead: readonly PromptPart[];
  push(token: WrittenToken): OutputStep;
  /** The events of held-back text when generation has ended. */
  finish(): readonly ChatEvent[];
  /** GBNF that the next token must follow, while inside a call. */
  readonly callGrammar: string | undefined;
  /** At least one call was written and none is incomplete. */
  readonly callsComplete: boolean;
}

export function createOutput(options: OutputOptions): Output {
  const { stop = [], calls, syntax, callsBefore, dropLeadingSpace, acceptWholeCalls, newCallId } = options;
  const { mark, open } = syntax;
  const decoder = calls && createCallDecoder({ ...calls, syntax, callsBefore, newId: newCallId });
  const lead = calls?.forced && decoder ? decoder.open('') : [];
  const awaited = calls && !calls.forced;
  const text = createTextStream({
    stop: awaited && mark !== undefined ? [...stop, mark] : stop,
    dropLeadingSpace,
    opening: awaited && mark === undefined ? createOpening(open, calls.forms) : undefined,
    wholeCall: awaited && acceptWholeCalls ? createWholeCall(calls.forms.map(({ name }) => name)) : undefined,
  });
  // Stop sequences do not apply inside arguments, where they would break the JSON.
  const callText = createTextStream({});
  const logprobs = createLogprobQueue();
  let withLogprobs = false;
  let sent = 0;
  let inCall = lead.length > 0;
  let textDone = inCall;
  let isWholeCall = false;

  const textEvents = (chunk: string, upTo: number): ChatEvent[] => {
    sent += chunk.length;
    const ready = logprobs.take(upTo);
    if (chunk === '' && ready.length === 0) return [];
    return [{ type: 'text-delta', text: chunk, ...(withLogprobs ? { logprobs: ready } : {}) }];
  };

  /** Switches from text to calls. Drops what the last token has beyond the opening. */
  const enter = (events: ChatEvent[], insert: PromptPart[], kept?: string): OutputStep => {
    inCall = true;
    textDone = true;
    return { events, done: false, insert, ...(kept === undefined ? {} : { kept }) };
  };

  const pushText = ({ bytes, control, logprob }: WrittenToken): OutputStep => {
    if (awaited && decoder && control !== undefined && control === mark) {
      const held = text.flush();
      return enter(textEvents(held, sent + held.length), decoder.open(mark));
    }
    const step = text.push(bytes);
    if (logprob) {
      withLogprobs = true;
      logprobs.add(logprob, text.decodedLength);
    }
    const events = textEvents(step.text, sent + step.text.length);
    const without = (rest: string) => new TextDecoder().decode(bytes).slice(0, -rest.length || undefined);
    if (decoder && step.opened) {
      return enter(events, decoder.openNamed(step.opened.name), without(step.opened.rest));
    }
    if (!step.stop) return { events, done: false };
    if (awaited && decoder && step.stop.sequence === mark) {
      return enter(events, decoder.open(mark), without(step.stop.rest));
    }
    textDone = true;
    return { events, done: true, stopSequence: step.stop.sequence };
  };

  return {
    lead,
    push(token) {
      if (!inCall || !decoder) return pushText(token);
      return decoder.push(callText.push(token.bytes).text);
    },
    finish() {
      if (textDone) return [];
      const { text: rest, call } = text.end();
      if (call === undefined) return textEvents(rest, Number.POSITIVE_INFINITY);
      isWholeCall = true;
      return [
        { type: 'tool-call-delta', index: 0, id: newCallId(), name: call.name, argumentsDelta: '' },
        { type: 'tool-call-delta', index: 0, argumentsDelta: call.arguments },
      ];
    },
    get callGrammar() {
      return inCall ? decoder?.grammar : undefined;
    },
    get callsComplete() {
      return isWholeCall || (decoder?.complete ?? false);
    },
  };
}
