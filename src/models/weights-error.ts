export type WeightsFailure =
  /** The source did not answer, or not in time. */
  | 'unreachable'
  /** The source refused the file or does not have it. */
  | 'refused'
  | 'mismatch'
  | 'no-space'
  /** The disk failed. */
  | 'storage'
  /** Not on this disk, and pulling is not allowed. */
  | 'absent'
  /** The catalog names something that cannot be used. */
  | 'invalid';

const CLIENT_REASONS: Record<WeightsFailure, string> = {
  unreachable: 'its weights cannot be fetched at the moment',
  refused: 'its weights are not available from their source',
  mismatch: 'its weights do not match their checksum',
  'no-space': 'there is not enough disk space for its weights',
  storage: 'its weights cannot be stored at the moment',
  absent: 'its weights are not installed',
  invalid: 'its weights are not configured correctly',
};

/** The message is for operators and may name hosts and paths. Clients get `clientReason`. */
export class WeightsError extends Error {
  override readonly name = 'WeightsError';
  readonly failure: WeightsFailure;

  constructor(failure: WeightsFailure, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.failure = failure;
  }

  get clientReason(): string {
    return CLIENT_REASONS[this.failure];
  }
}

const DISK_FULL = new Set(['ENOSPC', 'EDQUOT']);
const DISK_FAILURES = new Set([...DISK_FULL, 'EACCES', 'EIO', 'EMFILE', 'EPERM', 'EROFS']);

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';

export const isDiskFailure = (error: unknown): boolean => DISK_FAILURES.has(codeOf(error));

export function asWeightsError(error: unknown): WeightsError {
  if (error instanceof WeightsError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const failure = DISK_FULL.has(codeOf(error)) ? 'no-space' : 'storage';
  return new WeightsError(failure, `The weights could not be stored: ${message}`, error);
}
