import type { PdfReadContext, PdfText } from '@baobab/core/ports/file-readers.ts';
import { describe, expect, it } from 'vitest';
import { createSlots } from '../../../server/src/admission/slots.ts';
import { createPdfReader, createTextCache } from './pdf-reader.ts';

const contextOf = (accountId: string, keeps = true): PdfReadContext => ({
  accountId,
  keyId: `key of ${accountId}`,
  priority: 'interactive',
  signal: new AbortController().signal,
  keeps,
});

function setUp() {
  let now = 0;
  const started: string[] = [];
  const ends: ((found: PdfText) => void)[] = [];
  const clock = { now: () => now };
  const readers = createSlots({ queueLength: 10, queueTimeoutMs: 60_000, maxPerAccount: 1, clock });
  readers.setCapacity(2);
  const reader = createPdfReader({
    readers,
    clock,
    readText: (content) => {
      started.push('base64' in content ? content.base64 : content.sha256);
      return new Promise((resolve) => ends.push(resolve));
    },
  });
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  return {
    reader,
    started,
    turn,
    end: (found: PdfText) => ends.shift()?.(found),
    pass: (ms: number) => {
      now += ms;
    },
  };
}

describe('the reader of PDF files', () => {
  it('leaves a slot to other accounts', async () => {
    const { reader, started, turn, end } = setUp();
    const all = ['a1', 'a2', 'b1'].map((base64) => reader.read({ base64 }, contextOf(base64.slice(0, 1), false)));
    await turn();
    expect(started).toEqual(['a1', 'b1']);
    for (const text of ['one', 'two', 'three']) {
      end({ text });
      await turn();
    }
    expect(started).toEqual(['a1', 'b1', 'a2']);
    expect(await Promise.all(all)).toEqual([{ text: 'one' }, { text: 'three' }, { text: 'two' }]);
  });

  it('reads a file once for an account, and again after ten minutes', async () => {
    const { reader, started, turn, end, pass } = setUp();
    const read = async (accountId: string, keeps?: boolean) => {
      const found = reader.read({ base64: 'file' }, contextOf(accountId, keeps));
      await turn();
      end({ text: `of ${accountId}` });
      return await found;
    };
    expect(await read('a')).toEqual({ text: 'of a' });
    expect(await read('a')).toEqual({ text: 'of a' });
    expect(started).toHaveLength(1);
    expect(await read('b')).toEqual({ text: 'of b' });
    expect(started).toHaveLength(2);
    pass(600_000);
    await read('a');
    expect(started).toHaveLength(3);
  });

  it('keeps nothing of accounts without retention', async () => {
    const { reader, started, turn, end } = setUp();
    for (let i = 0; i < 2; i++) {
      const found = reader.read({ base64: 'file' }, contextOf('a', false));
      await turn();
      end({ text: 'text' });
      await found;
    }
    expect(started).toHaveLength(2);
  });

  it('remembers a file that cannot be read, unless only the time was too short', async () => {
    const { reader, started, turn, end } = setUp();
    for (const reason of ['time', 'damaged', 'damaged'] as const) {
      const found = reader.read({ base64: 'file' }, contextOf('a'));
      await turn();
      end({ failure: { reason } });
      expect(await found).toEqual({ failure: { reason } });
    }
    expect(started).toHaveLength(2);
  });
});

describe('the texts that are kept', () => {
  const MILLION = 'x'.repeat(1_000_000);

  it('drops the oldest texts of the account that keeps most', () => {
    const cache = createTextCache({ now: () => 0 });
    cache.set('a', 'small', { text: 'short' });
    for (let file = 0; file < 40; file++) cache.set('b', `large ${file}`, { text: MILLION });
    expect(cache.get('a', 'small')).toEqual({ text: 'short' });
    const kept = Array.from({ length: 40 }, (_, file) => cache.get('b', `large ${file}`) !== undefined);
    expect(kept.indexOf(true)).toBe(24);
    expect(kept.lastIndexOf(false)).toBe(23);
  });

  it('keeps the text that was used last', () => {
    const cache = createTextCache({ now: () => 0 });
    for (let file = 0; file < 16; file++) cache.set('a', `${file}`, { text: MILLION });
    cache.get('a', '0');
    cache.set('a', '16', { text: MILLION });
    expect([cache.get('a', '0'), cache.get('a', '1')]).toEqual([{ text: MILLION }, undefined]);
  });
});
