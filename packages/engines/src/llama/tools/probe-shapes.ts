import { escapePattern } from './call-syntax.ts';

/** Arguments of invented calls, and how to find them in a rendered prompt. */
export interface ProbeShape {
  argumentsOf(index: number): unknown;
  /** Undefined: they are missing, or printed in another shape. */
  find(text: string, index: number): Found | undefined;
}

export interface Found {
  start: number;
  end: number;
  /** Only for arguments between tags. */
  tags?: { beforeValue: string; between: string };
}

const textOf = (index: number) => `probe_value_${index}`;

/** Whether a text has the arguments of this call in any shape. */
export const isShown = (text: string, index: number) => text.includes(textOf(index));

/** One JSON object with any white space. */
export const JSON_SHAPE: ProbeShape = {
  argumentsOf: (index) => ({ probe_key: textOf(index) }),
  find(text, index) {
    const found = new RegExp(`\\{\\s*"probe_key"\\s*:\\s*"${textOf(index)}"\\s*\\}`).exec(text);
    return found ? { start: found.index, end: found.index + found[0].length } : undefined;
  },
};

/** The same as text, for templates that print arguments unchanged. */
export const TEXT_SHAPE: ProbeShape = {
  ...JSON_SHAPE,
  argumentsOf: (index) => JSON.stringify(JSON_SHAPE.argumentsOf(index)),
};

/** A text that would not survive quoting or escaping. */
const rawText = (index: number) => `${textOf(index)} "<&'\n\\é> 1`;

/** Keys and values one by one, with the same text around each: strings as they are, others as JSON. Spans first key to last value. */
export const TAGGED_SHAPE: ProbeShape = {
  argumentsOf: (index) => ({
    probe_text: rawText(index),
    probe_number: 12.5,
    probe_object: { probe_inner: [true, 'x'] },
    probe_boolean: false,
  }),
  find(text, index) {
    const pattern = [
      `probe_text(.+?)${escapePattern(rawText(index))}(.+?)`,
      'probe_number\\1(?:12\\.5)\\2',
      'probe_object\\1\\{\\s*"probe_inner"\\s*:\\s*\\[\\s*true\\s*,\\s*"x"\\s*\\]\\s*\\}\\2',
      'probe_boolean\\1false',
    ].join('');
    const found = new RegExp(pattern, 's').exec(text);
    const [all, beforeValue, between] = found ?? [];
    if (!found || all === undefined || beforeValue === undefined || between === undefined) return undefined;
    return { start: found.index, end: found.index + all.length, tags: { beforeValue, between } };
  },
};
