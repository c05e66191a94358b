import { HIDDEN, secretForms } from './secret-scrubber.ts';

/** Hides secrets in a text that arrives in pieces, also where one is spread over several of them. */
export interface StreamScrubber {
  /** Returns what can be passed on. Holds back an end that may be the beginning of a secret. */
  push(text: string): string;
  /** Returns what was held back. */
  end(): string;
  /** Something is held back. */
  readonly holds: boolean;
  /** How many secrets were hidden so far. */
  readonly hidden: number;
}

export function createStreamScrubber(secrets: Iterable<string | undefined>): StreamScrubber {
  const forms = secretForms(secrets);
  let held = '';
  let hidden = 0;

  const withoutSecrets = (text: string): string => {
    let clean = text;
    for (const form of forms) {
      if (!clean.includes(form)) continue;
      hidden += 1;
      clean = clean.replaceAll(form, HIDDEN);
    }
    return clean;
  };
  /** Where the longest end begins that may go on as a secret. */
  const heldFrom = (text: string): number => {
    let from = text.length;
    for (const form of forms) {
      const first = form.charAt(0);
      let at = text.indexOf(first, Math.max(0, text.length - form.length + 1));
      while (at !== -1 && at < from && !form.startsWith(text.slice(at))) at = text.indexOf(first, at + 1);
      if (at !== -1 && at < from) from = at;
    }
    return from;
  };

  return {
    push(text) {
      const clean = withoutSecrets(held + text);
      const from = heldFrom(clean);
      held = clean.slice(from);
      return clean.slice(0, from);
    },
    end() {
      const rest = held;
      held = '';
      return rest;
    },
    get holds() {
      return held !== '';
    },
    get hidden() {
      return hidden;
    },
  };
}
