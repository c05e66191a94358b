import { createHash } from 'node:crypto';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { PdfContent, PdfFailure, PdfReader, PdfText, ReaderSlots } from '@baobab/core/ports/file-readers.ts';
import { AccountCache } from '@baobab/core/runtime/account-cache.ts';
import { yieldToEventLoop } from '@baobab/core/runtime/time-slices.ts';
import { type OnSeal, type SandboxedEnd, SandboxedProcess } from '@baobab/core/sandbox/sandboxed-process.ts';
import type { ReaderArguments, ReadFailure } from './protocol.ts';

interface PdfReaderDependencies {
  /** Bounds the reader processes of all requests; each takes about 100 MB. */
  readers: ReaderSlots;
  limits?: Partial<PdfLimits> | undefined;
  clock: Clock;
  onSeal?: OnSeal | undefined;
  readText?: typeof readPdfText;
}

const PIECE_CHARACTERS = 4_194_304;

async function keyOf(content: PdfContent): Promise<string> {
  if ('sha256' in content) return `file ${content.sha256}`;
  const hash = createHash('sha256');
  for (let at = 0; at < content.base64.length; at += PIECE_CHARACTERS) {
    if (at > 0) await yieldToEventLoop();
    hash.update(content.base64.slice(at, at + PIECE_CHARACTERS), 'latin1');
  }
  return `inline ${hash.digest('base64')}`;
}

/** Reads PDF files, each in a process of its own. Clients send the same file with every turn of a chat, so texts are kept for a while. */
export function createPdfReader(dependencies: PdfReaderDependencies): PdfReader {
  const { readers, limits, clock, onSeal, readText = readPdfText } = dependencies;
  const cache = createTextCache(clock);
  return {
    async read(content, { keeps, ...context }) {
      const key = keeps ? await keyOf(content) : undefined;
      const known = key === undefined ? undefined : cache.get(context.accountId, key);
      if (known !== undefined) return known;
      const permit = await readers.enter(context);
      try {
        const found = await readText(content, { signal: context.signal, limits, onSeal });
        if (key !== undefined) cache.set(context.accountId, key, found);
        return found;
      } finally {
        permit.release();
      }
    },
  };
}

interface Entry {
  found: PdfText;
  expiresAt: number;
}

const MAX_CHARACTERS = 16_777_216;
const MAX_AGE_MS = 600_000;

/** The texts that were used last. A file that could not be read is not tried again for as long. */
export function createTextCache(clock: Clock) {
  const cache = new AccountCache<Entry>(MAX_CHARACTERS);
  const isOver = ({ expiresAt }: Entry): boolean => expiresAt <= clock.now();

  return {
    get(accountId: string, key: string): PdfText | undefined {
      const entry = cache.get(accountId, key);
      if (entry === undefined || !isOver(entry)) return entry?.found;
      cache.delete(accountId, key);
      return undefined;
    },
    set(accountId: string, key: string, found: PdfText): void {
      cache.deleteWhere(isOver);
      cache.delete(accountId, key);
      // On a machine with less to do it may be read in time.
      if ('failure' in found && found.failure.reason === 'time') return;
      const value = { found, expiresAt: clock.now() + MAX_AGE_MS };
      cache.set(accountId, key, { value, characters: 'text' in found ? found.text.length : 0 });
    },
  };
}

export interface PdfLimits {
  maxPages: number;
  maxCharacters: number;
  maxMemoryBytes: number;
  maxCpuSeconds: number;
  /** Wall time in which it uses next to no processor time, or all of its time where that cannot be read. */
  idleTimeoutMs: number;
}

const DEFAULT_LIMITS: PdfLimits = {
  maxPages: 1_000,
  maxCharacters: 2_000_000,
  maxMemoryBytes: 512 * 1024 * 1024,
  maxCpuSeconds: 20,
  idleTimeoutMs: 180_000,
};

const ENTRY = fileURLToPath(new URL('./reader-process.ts', import.meta.url));
const HEAP_MEGABYTES = 256;
/** V8 reserves up to this much for code. The kernel counts it, although little of it is used. */
const RESERVED_BYTES = 512 * 1024 * 1024;
/** Other requests go first. */
const NICENESS = 10;
/** A process that uses a smaller part of a core is stuck. */
const MIN_SHARE = 1 / 400;
/** Base64 is sent in pieces, so that a large file does not block the event loop. */
const SENT_CHARACTERS = 262_144;
const MAX_BYTES_PER_CHARACTER = 4;

/** Why a reader was killed. */
type EndReason = 'memory' | 'time' | 'too-long';

/**
 * The text of a PDF file, read in a process of its own without rights. It is killed when the signal fires. A process that cannot start
 * is an error, everything that the file causes is a `failure`.
 */
export async function readPdfText(
  content: PdfContent,
  options: {
    signal: AbortSignal;
    limits?: Partial<PdfLimits> | undefined;
    onSeal?: OnSeal | undefined;
    entry?: string;
  },
): Promise<PdfText> {
  const { signal, onSeal, entry = ENTRY } = options;
  if (signal.aborted) throw cancellation(signal);
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const { maxPages, maxCharacters, maxMemoryBytes, maxCpuSeconds } = limits;
  const encoding = 'base64' in content ? 'base64' : 'binary';
  const isIdle = watchProgress(limits.idleTimeoutMs);
  await using reader = new SandboxedProcess<ReadFailure, EndReason>(
    {
      name: 'the PDF reader',
      entry,
      library: fileURLToPath(import.meta.resolve('unpdf')),
      heapMegabytes: HEAP_MEGABYTES,
      argument: { encoding, maxPages, maxCharacters } satisfies ReaderArguments,
      input: 'pipe',
      onSeal,
      limits: { memoryBytes: maxMemoryBytes + RESERVED_BYTES, cpuSeconds: maxCpuSeconds },
      niceness: NICENESS,
      check({ memoryBytes, cpuSeconds }) {
        if (memoryBytes > maxMemoryBytes) return 'memory';
        return cpuSeconds > maxCpuSeconds || isIdle(cpuSeconds) ? 'time' : undefined;
      },
    },
    signal,
  );
  const { stdin, stdout } = reader.child;
  const output = textOf(stdout as Readable, maxCharacters * MAX_BYTES_PER_CHARACTER, () => reader.kill('too-long'));
  const sent = send(content, stdin as Writable).catch((error: Error) => {
    reader.kill();
    return error;
  });
  const [exit, text, sendError] = await Promise.all([reader.exit, output, sent]);
  if (signal.aborted) throw cancellation(signal);
  if (exit.code !== 0 && sendError !== undefined && !isClosedPipe(sendError)) throw sendError;
  const end = await reader.end();
  return end === undefined ? { text } : { failure: failureOf(end, maxCharacters) };
}

/**
 * Whether the reader has used next to no processor time for long. A busy machine may give it one or two percent of a core, which is not
 * the fault of the file: such a reader goes on until it has used up its processor time.
 */
function watchProgress(timeoutMs: number): (cpuSeconds: number) => boolean {
  const leastSeconds = (timeoutMs / 1000) * MIN_SHARE;
  let since = performance.now();
  let secondsThen = 0;
  return (cpuSeconds) => {
    if (cpuSeconds - secondsThen < leastSeconds) return performance.now() - since > timeoutMs;
    since = performance.now();
    secondsThen = cpuSeconds;
    return false;
  };
}

function* piecesOf(text: string): Generator<Buffer> {
  for (let at = 0; at < text.length; at += SENT_CHARACTERS) {
    yield Buffer.from(text.slice(at, at + SENT_CHARACTERS), 'latin1');
  }
}

async function send(content: PdfContent, stdin: Writable): Promise<undefined> {
  const bytes = 'base64' in content ? piecesOf(content.base64) : await content.open();
  await pipeline(Readable.from(bytes), stdin);
}

/** The reader ended before it had read everything. Its exit says why. */
const isClosedPipe = ({ code }: NodeJS.ErrnoException): boolean =>
  code === 'EPIPE' || code === 'ECONNRESET' || code === 'ERR_STREAM_PREMATURE_CLOSE' || code === 'ERR_STREAM_DESTROYED';

async function textOf(stream: Readable, maxBytes: number, onOverflow?: () => void): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stream as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes <= maxBytes) parts.push(part);
    else onOverflow?.();
  }
  return Buffer.concat(parts).toString();
}

function failureOf(
  { exit: { signal }, failure, killedFor }: SandboxedEnd<ReadFailure, EndReason>,
  maxCharacters: number,
): PdfFailure {
  if (killedFor === 'too-long') return { reason: 'too-long', limit: maxCharacters };
  if (killedFor !== undefined) return { reason: killedFor };
  if (failure !== undefined) return failure;
  // The kernel's limit of processor time: first a signal that ends the process, then a kill.
  if (signal === 'SIGXCPU' || signal === 'SIGKILL') return { reason: 'time' };
  // V8 aborts when it gets no more memory.
  return { reason: signal === 'SIGABRT' || signal === 'SIGTRAP' ? 'memory' : 'damaged' };
}
