import { createJsonReader } from '@baobab/core/engine/written-calls.ts';
import { describe, expect, it } from 'vitest';
import { createOpening } from './call-opening.ts';

const forms = (names: readonly string[], text: string) =>
  names.map((name) => ({ name, endings: [{ text, insert: '' }], grammar: '', createReader: createJsonReader }));

describe('createOpening', () => {
  const opening = createOpening('{"name": "', forms(['weather', 'time'], '"'));

  it.each(['', ' \n', '{', '{"na', '{"name": "weath', '{ "name"\n:"time', '{"type": "func'])(
    'waits after %j',
    (text) => {
      expect(opening(text)).toBe('open');
    },
  );

  it.each(['Hello', '{"title', '{"name": "Bob"', '{"name": 1', '{"type": "object"', '[{"name": "time"'])(
    'sees an answer in %j',
    (text) => {
      expect(opening(text)).toBe('no');
    },
  );

  it.each(['{"name": "time"', '\n{"name":"time"', '{ "type" : "function", "name" : "time"'])(
    'sees a call in %j',
    (text) => {
      expect(opening(`${text}, "pa`)).toEqual({ name: 'time', end: text.length });
    },
  );

  it('distinguishes a name from a longer one', () => {
    const longer = createOpening('', forms(['time', 'time_zone'], '\n'));
    expect(longer('time')).toBe('open');
    expect(longer('time_zo')).toBe('open');
    expect(longer('time\n{')).toEqual({ name: 'time', end: 5 });
    expect(longer('timely')).toBe('no');
  });
});
