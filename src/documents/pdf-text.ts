import { type ChildProcess, spawn } from 'node:child_process';
import { setPriority } from 'node:os';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { cancellation } from '../errors/cancellation.ts';
import type { PdfContent, PdfFailure, PdfText } from '../ports/file-readers.ts';
import { withoutNewPrivileges } from '../runtime/no-new-privileges.ts';
import { withProcessLimits } from '../runtime/process-limits.ts';
import { resourcesOf } from '../runtime/process-resources.ts';
import { sandboxedNode } from '../runtime/sandboxed-node.ts';
import { type ProcessExit, SandboxedProcess } from '../runtime/sandboxed-process.ts';
import type { ReaderArguments, ReadFailure } from './protocol.ts';

export interface PdfLimits {
  maxPages: number;
  maxCharacters: number;
  maxMemoryBytes: number;
  maxCpuSeconds: number;
  /** Wall time, for a process that is idle or where CPU time has no limit. */
  timeoutMs: number;
}

export const DEFAULT_LIMITS: PdfLimits = {
  maxPages: 1_000,
  maxCharacters: 2_000_000,
  maxMemoryBytes: 512 * 1024 * 1024,
  maxCpuSeconds: 20,
  timeoutMs: 180_000,
};

const ENTRY = fileURLToPath(new URL('./reader-process.ts', import.meta.url));
const HEAP_MEGABYTES = 256;
/** V8 reserves up to this much for code. The kernel counts it, although little of it is used. */
const RESERVED_BYTES = 512 * 1024 * 1024;
/** Other requests go first. */
const NICENESS = 10;
const CHECK_MS = 250;
/** Base64 is sent in pieces, so that a large file does not block the event loop. */
const PIECE_CHARACTERS = 262_144;
const MAX_BYTES_PER_CHARACTER = 4;

/** Why a reader was killed. */
type EndReason = 'memory' | 'time' | 'too-long';

/**
 * The text of a PDF file, read in a process of its own without rights. It is killed when the signal fires. A process that cannot start
 * is an error, everything that the file causes is a `failure`.
 */
export async function readPdfText(
  content: PdfContent,
  options: { signal: AbortSignal; limits?: Partial<PdfLimits> | undefined; entry?: string },
): Promise<PdfText> {
  const { signal, entry = ENTRY } = options;
  if (signal.aborted) throw cancellation(signal);
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const { maxPages, maxCharacters } = limits;
  const encoding = 'base64' in content ? 'base64' : 'binary';
  await using reader = new SandboxedProcess<ReadFailure, EndReason>(
    start(entry, { encoding, maxPages, maxCharacters }, limits),
    signal,
  );
  const { child } = reader;
  const timeout = setTimeout(() => reader.kill('time'), limits.timeoutMs);
  // For systems on which the kernel sets no limits, or none as tight.
  const checks = setInterval(async () => {
    const used = await resourcesOf(child.pid);
    if (used.memoryBytes > limits.maxMemoryBytes) reader.kill('memory');
    if (used.cpuSeconds > limits.maxCpuSeconds) reader.kill('time');
  }, CHECK_MS);
  try {
    const output = textOf(child.stdout as Readable, maxCharacters * MAX_BYTES_PER_CHARACTER, () =>
      reader.kill('too-long'),
    );
    const sent = send(content, child.stdin as Writable).catch((error: Error) => {
      reader.kill();
      return error;
    });
    const [result, text, { atWork, failure }, sendError] = await Promise.all([
      reader.exit,
      output,
      reader.report,
      sent,
    ]);
    if (signal.aborted) throw cancellation(signal);
    if (result.code === 0) return { text };
    if (sendError !== undefined && !isClosedPipe(sendError)) throw sendError;
    if (!atWork && reader.killedFor === undefined) {
      throw new Error(`the PDF reader did not start: it ended with ${result.code ?? result.signal}`, {
        cause: result.error,
      });
    }
    return { failure: failureOf(result, { killedFor: reader.killedFor, failure, maxCharacters }) };
  } finally {
    clearTimeout(timeout);
    clearInterval(checks);
  }
}

function start(entry: string, args: ReaderArguments, limits: PdfLimits): ChildProcess {
  const sandboxed = sandboxedNode({
    entry,
    packageName: 'unpdf',
    heapMegabytes: HEAP_MEGABYTES,
    argument: args,
  });
  const limited = withProcessLimits(process.execPath, sandboxed, {
    memoryBytes: limits.maxMemoryBytes + RESERVED_BYTES,
    cpuSeconds: limits.maxCpuSeconds,
  });
  const [program, programArguments] = withoutNewPrivileges(...limited);
  const child = spawn(program, programArguments, { stdio: ['pipe', 'pipe', 'ignore', 'pipe'], env: {} });
  try {
    if (child.pid !== undefined) setPriority(child.pid, NICENESS);
  } catch {
    // It has ended already, or this system does not allow it.
  }
  return child;
}

function* piecesOf(text: string): Generator<Buffer> {
  for (let at = 0; at < text.length; at += PIECE_CHARACTERS) {
    yield Buffer.from(text.slice(at, at + PIECE_CHARACTERS), 'latin1');
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
  { signal }: ProcessExit,
  facts: { killedFor: EndReason | undefined; failure: ReadFailure | undefined; maxCharacters: number },
): PdfFailure {
  const { killedFor, failure, maxCharacters } = facts;
  if (killedFor === 'too-long') return { reason: 'too-long', limit: maxCharacters };
  if (killedFor !== undefined) return { reason: killedFor };
  if (failure !== undefined) return failure;
  // The kernel's limit of processor time: first a signal that ends the process, then a kill.
  if (signal === 'SIGXCPU' || signal === 'SIGKILL') return { reason: 'time' };
  // V8 aborts when it gets no more memory.
  return { reason: signal === 'SIGABRT' || signal === 'SIGTRAP' ? 'memory' : 'damaged' };
}
