import type { WholeCall, WholeCallMatch } from '@baobab/core/engine/written-calls.ts';
import { firstOccurrence, possibleStopSuffix } from '../text/stop-sequences.ts';
import type { OpeningMatch } from '../tools/call-opening.ts';

/** Turns token bytes into text that may be sent: no broken characters, no part of a stop sequence. */
export interface TextStream {
  push(bytes: Uint8Array): TextStep;
  /** Returns the held-back text as plain text. */
  flush(): string;
  /** The end of generation: the held text is a whole call or plain text. */
  end(): { text: string; call?: WholeCall };
  /** Characters decoded so far, sent or held. */
  readonly decodedLength: number;
}

export interface TextStep {
  /** Safe to send now. */
  text: string;
  /** The stop sequence that was found, and the text decoded beyond it. */
  stop?: { sequence: string; rest: string };
  /** The call that the answer begins with, and the text decoded beyond its name. */
  opened?: { name: string; rest: string };
}

export interface TextStreamOptions {
  stop?: readonly string[] | undefined;
  /** Drop one space at the very start. */
  dropLeadingSpace?: boolean | undefined;
  /** Text is held back until this decides whether the answer begins with a call. */
  opening?: ((text: string) => OpeningMatch) | undefined;
  /** Text is held back while the whole answer may be a call. */
  wholeCall?: ((text: string) => WholeCallMatch) | undefined;
}

export function createTextStream(options: TextStreamOptions): TextStream {
  const { stop = [], dropLeadingSpace = false, opening, wholeCall } = options;
  const stops = stop.filter((text) => text !== '');
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let held = '';
  let decodedLength = 0;
  let spaceToDrop = dropLeadingSpace;
  let decide = opening;
  let matchWhole = wholeCall;
  let call: WholeCall | undefined;

  const take = (decoded: string): TextStep => {
    let fresh = decoded;
    if (spaceToDrop && fresh !== '') {
      spaceToDrop = false;
      if (fresh.startsWith(' ')) fresh = fresh.slice(1);
    }
    decodedLength += fresh.length;
    held += fresh;
    const start = decide?.(held) ?? 'no';
    if (start === 'open') return { text: '' };
    decide = undefined;
    if (start !== 'no') {
      const step = { text: '', opened: { name: start.name, rest: held.slice(start.end) } };
      held = '';
      return step;
    }
    const found = firstOccurrence(held, stops);
    const whole = found ? 'no' : (matchWhole?.(held) ?? 'no');
    call = typeof whole === 'string' ? undefined : whole;
    if (whole !== 'no') return { text: '' };
    matchWhole = undefined;
    if (found) {
      const step = {
        text: held.slice(0, found.at),
        stop: { sequence: found.sequence, rest: held.slice(found.at + found.sequence.length) },
      };
      held = '';
      return step;
    }
    const keep = possibleStopSuffix(held, stops);
    const text = held.slice(0, held.length - keep);
    held = held.slice(held.length - keep);
    return { text };
  };

  const flush = (): string => {
    decide = undefined;
    matchWhole = undefined;
    const step = take(decoder.decode());
    const text = step.text + held;
    held = '';
    return text;
  };

  return {
    push: (bytes) => take(decoder.decode(bytes, { stream: true })),
    flush,
    end() {
      if (call === undefined) return { text: flush() };
      held = '';
      return { text: '', call };
    },
    get decodedLength() {
      return decodedLength;
    },
  };
}
