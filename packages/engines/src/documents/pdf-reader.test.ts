import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { errors } from '@baobab/core/errors/errors.ts';
import type { PdfReadContext, PdfText } from '@baobab/core/ports/file-readers.ts';
import { describe, expect, it } from 'vitest';
import {
  bombPdf,
  deepPdf,
  imagePdf,
  lockedPdf,
  longPdf,
  pagesOf,
  streamOf,
  textPdf,
} from '../../../../test/fixtures/pdf.ts';
import { createSlots } from '../../../server/src/admission/slots.ts';
import { sealOf } from '../seccomp/testing/seal-of.ts';
import { createPdfReader, createTextCache, type PdfLimits, readPdfText } from './pdf-reader.ts';

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
  const readers = createSlots({ queueLength: 10, queueTimeoutMs: 60_000, clock });
  readers.setCapacity(2, 1);
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

const read = (pdf: Buffer, limits?: Partial<PdfLimits>, signal = new AbortController().signal) =>
  readPdfText({ base64: pdf.toString('base64') }, { signal, limits });

describe('the text of a PDF', () => {
  it('is read page by page', async () => {
    expect(await read(textPdf('Once upon a time', 'there was a tree.'))).toEqual({
      text: 'Once upon a time\n\nthere was a tree.',
    });
  });

  it('is read from a stream of bytes', async () => {
    const content = { sha256: '', open: async () => Readable.from([textPdf('Streamed')]) };
    expect(await readPdfText(content, { signal: new AbortController().signal })).toEqual({ text: 'Streamed' });
  });

  it('is found without a table of contents, as in files cut by hand', async () => {
    const whole = textPdf('Still there').toString('latin1');
    const cut = Buffer.from(whole.slice(0, whole.lastIndexOf('xref\n0')), 'latin1');
    const trailer = Buffer.from('trailer\n<< /Root 1 0 R >>\n%%EOF');
    expect(await read(Buffer.concat([cut, trailer]))).toEqual({ text: 'Still there' });
  });

  it('has no control characters', async () => {
    expect(await read(pagesOf([streamOf('BT /F1 12 Tf 20 100 Td (a\\000\\007b) Tj ET')]))).toEqual({
      text: expect.stringMatching(/^a ?b$/),
    });
  });

  it('fails as a stream of bytes that cannot be read does', async () => {
    const broken = async function* () {
      yield Buffer.from('%PDF-1.4');
      throw new Error('disk');
    };
    const content = { sha256: '', open: async () => broken() };
    await expect(readPdfText(content, { signal: new AbortController().signal })).rejects.toThrow('disk');
  });
});

describe('a PDF that cannot be read', () => {
  it.each([
    ['not a PDF', Buffer.from('%PDF-1.4\nhello'), 'damaged'],
    ['empty', Buffer.alloc(0), 'damaged'],
    ['locked with a password', lockedPdf(), 'encrypted'],
    ['without text', imagePdf(), 'no-text'],
  ])('is a failure when it is %s', async (_what, pdf, reason) => {
    expect(await read(pdf)).toEqual({ failure: { reason } });
  });

  it('is a failure when it has too many pages', async () => {
    expect(await read(textPdf('1', '2', '3'), { maxPages: 2 })).toEqual({
      failure: { reason: 'too-many-pages', pages: 3, limit: 2 },
    });
  });

  it('is a failure when its text is too long, also within one page', async () => {
    expect(await read(longPdf(10_000), { maxCharacters: 100_000 })).toEqual({
      failure: { reason: 'too-long', limit: 100_000 },
    });
  });

  it('is a failure when its objects are nested too deeply', async () => {
    expect(await read(deepPdf())).toMatchObject({ failure: { reason: expect.stringMatching(/^(no-text|damaged)$/) } });
  });

  it('is a failure when it unpacks to more memory than a reader gets', async () => {
    // A system without that limit finds out that the page is empty.
    expect(await read(bombPdf())).toMatchObject({
      failure: { reason: expect.stringMatching(/^(memory|time|no-text)$/) },
    });
  });
});

/** A process that runs this code in place of the reader. */
async function readWith(code: string, limits?: Partial<PdfLimits>, signal = new AbortController().signal) {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'baobab-pdf-'));
  const entry = join(folder.path, 'entry.mjs');
  await writeFile(entry, code);
  return await readPdfText({ base64: textPdf('Hi').toString('base64') }, { signal, limits, entry });
}
const AT_WORK = "import { writeSync } from 'node:fs'; writeSync(3, '\\n');";

describe('the process that reads a PDF', () => {
  it('is ended when it uses too much processor time', async () => {
    expect(await readWith(`${AT_WORK} for (;;);`, { maxCpuSeconds: 2 })).toEqual({ failure: { reason: 'time' } });
  });

  it('fails for the file when it dies in the middle of its report', async () => {
    const code = `${AT_WORK} writeSync(3, '{"reason":"enc'); process.exit(1);`;
    expect(await readWith(code)).toEqual({ failure: { reason: 'damaged' } });
  });

  it('is ended when it is idle for too long', async () => {
    expect(await readWith(`${AT_WORK} setInterval(() => {}, 1000);`, { idleTimeoutMs: 1 })).toEqual({
      failure: { reason: 'time' },
    });
  });

  it('is not ended while it is slow, as on a busy machine', async () => {
    const code = `${AT_WORK} const end = Date.now() + 5_000; while (Date.now() < end); process.stdout.write('late');`;
    expect(await readWith(code, { idleTimeoutMs: 2_000 })).toEqual({ text: 'late' });
  });

  it('is ended when it uses too much memory', async () => {
    const code = `${AT_WORK} const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1));`;
    expect(await readWith(code)).toMatchObject({ failure: { reason: expect.stringMatching(/^(memory|damaged)$/) } });
  });

  it('is ended when it writes more than the text may have', async () => {
    const code = `${AT_WORK} const write = () => process.stdout.write('x'.repeat(65536), write); write();`;
    expect(await readWith(code, { maxCharacters: 100_000 })).toEqual({
      failure: { reason: 'too-long', limit: 100_000 },
    });
  });

  it('is a failure of the file when it crashes, and an error when it never started', async () => {
    expect(await readWith(`${AT_WORK} process.exit(9);`)).toEqual({ failure: { reason: 'damaged' } });
    await expect(readWith('process.exit(9);')).rejects.toThrow('the PDF reader did not start: it ended with 9');
  });

  it('can read no file but its own code, and has no variables', async () => {
    const code = `${AT_WORK} import { readFileSync } from 'node:fs'; let found = Object.keys(process.env).join();
      try { found += readFileSync('/etc/hosts'); } catch (error) { found += error.code; } process.stdout.write(found);`;
    const { text } = (await readWith(code)) as { text: string };
    expect(text).toMatch(/ERR_ACCESS_DENIED$/);
    expect(text).not.toContain('PATH');
  });

  it.runIf(process.platform === 'linux')('is sealed by the kernel before it reads the file', async () => {
    const bytes = textPdf('Sealed');
    const half = Promise.withResolvers<void>();
    const content = {
      sha256: '',
      open: async () =>
        (async function* () {
          yield bytes.subarray(0, 20);
          await half.promise;
          yield bytes.subarray(20);
        })(),
    };
    const reasons: (string | undefined)[] = [];
    const signal = new AbortController().signal;
    const reading = readPdfText(content, { signal, onSeal: (reason) => reasons.push(reason) });
    await expect.poll(() => sealOf('documents/reader-process.ts'), { timeout: 30_000 }).toEqual(['2']);
    half.resolve();
    expect(await reading).toEqual({ text: 'Sealed' });
    expect(reasons).toEqual([undefined]);
  });

  it('reports why it is not sealed', async () => {
    const reasons: (string | undefined)[] = [];
    await using folder = await mkdtempDisposable(join(tmpdir(), 'baobab-pdf-'));
    const entry = join(folder.path, 'entry.mjs');
    await writeFile(
      entry,
      "import { writeSync } from 'node:fs'; writeSync(3, 'no library\\n'); process.stdout.write('x');",
    );
    const { signal } = new AbortController();
    const onSeal = (reason: string | undefined) => reasons.push(reason);
    expect(await readPdfText({ base64: '' }, { signal, onSeal, entry })).toEqual({ text: 'x' });
    expect(reasons).toEqual(['no library']);
  });

  it('is ended when the client leaves', async () => {
    const abort = new AbortController();
    const reading = readWith(`${AT_WORK} setInterval(() => {}, 1000);`, {}, abort.signal);
    abort.abort(errors.clientCancelled());
    await expect(reading).rejects.toMatchObject({ code: 'client_cancelled' });
  });
});
