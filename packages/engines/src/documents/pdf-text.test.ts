import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { errors } from '@baobab/core/errors/errors.ts';
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
import { type PdfLimits, readPdfText } from './pdf-text.ts';

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

  it('is ended when the client leaves', async () => {
    const abort = new AbortController();
    const reading = readWith(`${AT_WORK} setInterval(() => {}, 1000);`, {}, abort.signal);
    abort.abort(errors.clientCancelled());
    await expect(reading).rejects.toMatchObject({ code: 'client_cancelled' });
  });
});
