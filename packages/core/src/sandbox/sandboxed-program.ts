/** What runs inside a sandboxed process. The server knows it only by `SandboxedProcess`. */
import { readSync, writeSync } from 'node:fs';

/**
 * On this descriptor a sandboxed program writes a line when its code is loaded, and a failure as JSON if it refuses its input. The line
 * is empty, or says why the kernel does not confine the process.
 */
export const REPORT_DESCRIPTOR = 3;

const INPUT_DESCRIPTOR = 0;
const OUTPUT_DESCRIPTOR = 1;

/** The program refuses its input. */
export class Unusable<Failure extends { reason: string }> extends Error {
  readonly failure: Failure;
  constructor(failure: Failure, cause?: unknown) {
    super(failure.reason, { cause });
    this.failure = failure;
  }
}

/** What the kernel allows the process from now on. */
export interface Seal {
  /** Why the process keeps its rights. Undefined: it is sealed. */
  reason?: string;
  /** A sealed process cannot end as usual. */
  exit(code: number): void;
}

const REFUSED = 2;

/**
 * Runs the program with the argument that the server gave it, after `seal` has taken the rights of the process away. A sealed process
 * can only read and write as below: libuv may not watch descriptors then.
 */
export async function runSandboxed<Argument>(
  work: (argument: Argument) => Promise<void>,
  seal: () => Promise<Seal>,
): Promise<void> {
  const { reason = '', exit } = await seal();
  process.on('uncaughtException', () => exit(1));
  writeSync(REPORT_DESCRIPTOR, `${firstLineOf(reason)}\n`);
  try {
    await work(JSON.parse(process.argv[2] ?? '{}') as Argument);
    exit(0);
  } catch (error) {
    if (error instanceof Unusable) writeSync(REPORT_DESCRIPTOR, JSON.stringify(error.failure));
    exit(error instanceof Unusable ? REFUSED : 1);
  }
}

const firstLineOf = (text: string): string => text.split('\n', 1)[0] ?? '';

/** Fills the buffer from the input, which waits for its sender. Returns how many bytes there were before its end. */
export function readInput(into: Uint8Array, position: number | null = null): number {
  let filled = 0;
  while (filled < into.length) {
    const at = position === null ? null : position + filled;
    const bytes = readSync(INPUT_DESCRIPTOR, into, filled, into.length - filled, at);
    if (bytes === 0) break;
    filled += bytes;
  }
  return filled;
}

const PIECE_BYTES = 1 << 20;

export function readWholeInput(): Buffer {
  const pieces: Buffer[] = [];
  for (;;) {
    const piece = Buffer.allocUnsafe(PIECE_BYTES);
    const filled = readInput(piece);
    pieces.push(piece.subarray(0, filled));
    if (filled < PIECE_BYTES) return Buffer.concat(pieces);
  }
}

/** Waits until the server has taken it. */
export function writeOutput(content: Uint8Array | string): void {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  for (let written = 0; written < bytes.length; ) written += writeSync(OUTPUT_DESCRIPTOR, bytes, written);
}
