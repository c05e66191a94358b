/** What runs inside a sandboxed process. The server knows it only by `SandboxedProcess`. */
import { writeSync } from 'node:fs';

/** On this descriptor a sandboxed program writes `AT_WORK` when its code is loaded, and a failure as JSON if it refuses its input. */
export const REPORT_DESCRIPTOR = 3;
export const AT_WORK = '\n';

/** The program refuses its input. */
export class Unusable<Failure extends { reason: string }> extends Error {
  readonly failure: Failure;
  constructor(failure: Failure, cause?: unknown) {
    super(failure.reason, { cause });
    this.failure = failure;
  }
}

/** Runs the program with the argument that the server gave it. */
export async function runSandboxed<Argument>(work: (argument: Argument) => Promise<void>): Promise<void> {
  writeSync(REPORT_DESCRIPTOR, AT_WORK);
  try {
    await work(JSON.parse(process.argv[2] ?? '{}') as Argument);
  } catch (error) {
    if (!(error instanceof Unusable)) throw error;
    writeSync(REPORT_DESCRIPTOR, JSON.stringify(error.failure));
    process.exitCode = 2;
  }
}
