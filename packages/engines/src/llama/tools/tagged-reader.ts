import { possibleStopSuffix } from '../text/stop-sequences.ts';
import type { ArgumentsReader, TaggedArguments } from './call-syntax.ts';
import type { ValueKind } from './tagged-values.ts';

type Part = 'key' | 'value' | 'after' | 'end';

/** Reads arguments between tags, from the first key on. The grammar ensures their order and form. */
export function createTaggedReader(syntax: TaggedArguments, kinds: ReadonlyMap<string, ValueKind>): ArgumentsReader {
  const { beforeKey, beforeValue, afterValue, end } = syntax;
  let part: Part = 'key';
  let pending = '';
  let before = '{';
  let value = createTextValue(syntax, false);

  /** Reads one character and returns the JSON that it completes. */
  const steps: Record<Part, (character: string) => string> = {
    key(character) {
      pending += character;
      if (!pending.endsWith(beforeValue)) return '';
      const key = pending.slice(0, -beforeValue.length);
      const kind = kinds.get(key) ?? 'text';
      value = kind === 'json' ? createJsonValue(syntax) : createTextValue(syntax, kind === 'text-or-null');
      const json = `${before}${JSON.stringify(key)}: `;
      part = 'value';
      before = ', ';
      return json;
    },
    value(character) {
      const { json, done } = value.read(character);
      if (done) {
        part = 'after';
        pending = '';
      }
      return json;
    },
    after(character) {
      pending += character;
      if (pending === afterValue + beforeKey) {
        part = 'key';
        pending = '';
      }
      if (pending !== afterValue + end) return '';
      part = 'end';
      return '}';
    },
    end: () => '',
  };
  return {
    read(text) {
      const json = Array.from(text, (character) => steps[part](character)).join('');
      return { json, done: part === 'end' };
    },
  };
}

type EndOfValue = Pick<TaggedArguments, 'valueMargin' | 'valueEnd'>;

/** Plain text to a JSON string. Only a possible beginning of the end tag is held back. */
function createTextValue({ valueMargin, valueEnd }: EndOfValue, nullable: boolean): ArgumentsReader {
  let held = '';
  let opened = false;
  const write = (text: string, last: boolean): string => {
    const quoted = JSON.stringify(text);
    const json = quoted.slice(opened ? 1 : 0, last ? undefined : -1);
    opened = true;
    return json;
  };
  return {
    read(text) {
      held += text;
      if (held.endsWith(valueEnd)) {
        const whole = held.slice(0, -valueEnd.length);
        const own = whole.endsWith(valueMargin) ? whole.slice(0, whole.length - valueMargin.length) : whole;
        return { json: nullable && !opened && own === 'null' ? own : write(own, true), done: true };
      }
      const free = held.length - possibleStopSuffix(held, [valueMargin + valueEnd, valueEnd]);
      const ready = held.slice(0, free);
      if (ready === '' || (nullable && !opened && 'null'.startsWith(ready))) return { json: '', done: false };
      held = held.slice(free);
      return { json: write(ready, false), done: false };
    },
  };
}

/** JSON. The first character of a tag occurs only inside its strings. */
function createJsonValue({ valueEnd }: EndOfValue): ArgumentsReader {
  let inString = false;
  let escaped = false;
  let space = '';
  let tag = '';
  const readCharacter = (character: string): string => {
    if (!inString && (tag !== '' || character === valueEnd[0])) {
      tag += character;
      return '';
    }
    if (!inString && /\s/.test(character)) {
      space += character;
      return '';
    }
    if (escaped) escaped = false;
    else if (inString && character === '\\') escaped = true;
    else if (character === '"') inString = !inString;
    const json = space + character;
    space = '';
    return json;
  };
  return {
    read(text) {
      const json = Array.from(text, readCharacter).join('');
      return { json, done: tag === valueEnd };
    },
  };
}
