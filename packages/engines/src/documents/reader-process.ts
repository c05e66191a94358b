/**
 * Reads a PDF file from standard input and writes its text to standard output. It may only read its own code. The kernel or the parent
 * ends it when it takes too much time or memory.
 */
import { readWholeInput, runSandboxed, Unusable, writeOutput } from '@baobab/core/sandbox/sandboxed-program.ts';
import { getDocumentProxy, getResolvedPDFJS } from 'unpdf';
import { sealProcess } from '../seccomp/seal.ts';
import type { ReaderArguments, ReadFailure } from './protocol.ts';

type Pdf = Awaited<ReturnType<typeof getDocumentProxy>>;

/** Errors only. */
const VERBOSITY = 0;
// Control characters mean nothing to a model, and some engines refuse them.
const CONTROL = /[\p{Cc}--[\n\t]]/gv;

async function open({ encoding }: ReaderArguments): Promise<Pdf> {
  const sent = readWholeInput();
  const content = encoding === 'base64' ? Buffer.from(sent.toString('latin1'), 'base64') : sent;
  try {
    return await getDocumentProxy(new Uint8Array(content), {
      verbosity: VERBOSITY,
      useSystemFonts: false,
      disableFontFace: true,
    });
  } catch (error) {
    const isLocked = (error as Error).name === 'PasswordException';
    if (isOutOfMemory(error)) throw new Unusable<ReadFailure>({ reason: 'memory' }, error);
    throw new Unusable<ReadFailure>({ reason: isLocked ? 'encrypted' : 'damaged' }, error);
  }
}

/** The text of a page, piece by piece: the text of one page can be too long. */
async function* textOf(pdf: Pdf, pageNumber: number): AsyncGenerator<string> {
  const page = await pdf.getPage(pageNumber);
  const pieces = page.streamTextContent({ includeMarkedContent: false }).getReader();
  for (;;) {
    const { done, value } = await pieces.read();
    if (done) break;
    let text = '';
    for (const item of value.items) if ('str' in item) text += item.hasEOL ? `${item.str}\n` : item.str;
    yield text.replace(CONTROL, '').toWellFormed();
  }
  page.cleanup();
}

/** V8 ends the process, or refuses one large buffer. PDF.js passes that on as an error of its own with the same message. */
const isOutOfMemory = (error: unknown): boolean => /allocation failed|typed array length/i.test(String(error));

async function run(given: ReaderArguments): Promise<void> {
  const { maxPages, maxCharacters } = given;
  const pdf = await open(given);
  const pages = pdf.numPages;
  if (pages > maxPages) throw new Unusable<ReadFailure>({ reason: 'too-many-pages', pages, limit: maxPages });
  let characters = 0;
  let hasText = false;
  let damage: unknown;
  for (let page = 1; page <= pages; page++) {
    let separator = hasText ? '\n\n' : '';
    try {
      for await (const text of textOf(pdf, page)) {
        characters += text.length + separator.length;
        if (characters > maxCharacters) throw new Unusable<ReadFailure>({ reason: 'too-long', limit: maxCharacters });
        writeOutput(separator + text);
        separator = '';
        hasText ||= text.trim() !== '';
      }
    } catch (error) {
      if (error instanceof Unusable) throw error;
      if (isOutOfMemory(error)) throw new Unusable<ReadFailure>({ reason: 'memory' }, error);
      // Other pages may be intact. The model should know that one is missing.
      damage = error;
      writeOutput(`${separator}[Page ${page} could not be read.]`);
    }
  }
  if (!hasText) throw new Unusable<ReadFailure>({ reason: damage === undefined ? 'no-text' : 'damaged' }, damage);
}

// It is loaded with the first document otherwise.
await getResolvedPDFJS();
await runSandboxed(run, sealProcess);
