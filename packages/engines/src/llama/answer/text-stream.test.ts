import { describe, expect, it } from 'vitest';
import { createTextStream } from './text-stream.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

describe('createTextStream', () => {
  it('never sends half a character', () => {
    const stream = createTextStream({});
    const whole = bytes('a🌍é');
    const sent = [...whole].map((byte) => stream.push(Uint8Array.of(byte)).text);
    expect(sent).toEqual(['a', '', '', '', '🌍', '', 'é']);
  });

  it('shows a broken character as one replacement at the end', () => {
    const stream = createTextStream({});
    expect(stream.push(Uint8Array.of(0x61, 0xf0, 0x9f)).text).toBe('a');
    expect(stream.flush()).toBe('\ufffd');
  });

  it('holds back what could become a stop sequence and drops it when it does', () => {
    const stream = createTextStream({ stop: ['END', 'is Par'] });
    expect(stream.push(bytes('France i'))).toEqual({ text: 'France ' });
    expect(stream.push(bytes('s'))).toEqual({ text: '' });
    expect(stream.push(bytes(' Paris.'))).toEqual({ text: '', stop: { sequence: 'is Par', rest: 'is.' } });
  });

  it('sends what was held back once it cannot be a stop sequence', () => {
    const stream = createTextStream({ stop: ['</s>'] });
    expect(stream.push(bytes('a</')).text).toBe('a');
    expect(stream.push(bytes('b')).text).toBe('</b');
    expect(stream.push(bytes('<')).text).toBe('');
    expect(stream.flush()).toBe('<');
  });

  it('takes the stop sequence that comes first', () => {
    const stream = createTextStream({ stop: ['c', 'b'] });
    expect(stream.push(bytes('abc'))).toEqual({ text: 'a', stop: { sequence: 'b', rest: 'c' } });
  });

  it('drops one leading space when asked', () => {
    const stream = createTextStream({ dropLeadingSpace: true });
    expect(stream.push(bytes('  a')).text + stream.push(bytes(' b')).text).toBe(' a b');
  });

  it('sends nothing before it is clear whether the answer begins with a call', () => {
    const opening = (text: string) =>
      text.startsWith('{a}') ? { name: 'a', end: 3 } : '{a}'.startsWith(text) ? 'open' : 'no';
    const call = createTextStream({ opening });
    expect(call.push(bytes('{a'))).toEqual({ text: '' });
    expect(call.push(bytes('},'))).toEqual({ text: '', opened: { name: 'a', rest: ',' } });
    const answer = createTextStream({ opening, stop: ['c'] });
    expect(answer.push(bytes('{'))).toEqual({ text: '' });
    expect(answer.push(bytes('bc{a}'))).toEqual({ text: '{b', stop: { sequence: 'c', rest: '{a}' } });
    const cut = createTextStream({ opening });
    cut.push(bytes('{a'));
    expect(cut.flush()).toBe('{a');
  });
});
