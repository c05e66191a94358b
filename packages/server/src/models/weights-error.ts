import type { SourceSpec } from '@baobab/core/domain/model.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';

export type WeightsFailure =
  /** This machine cannot reach the source: no such host, no network, or nothing listens there. */
  | 'offline'
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
  offline: 'its weights are not on this machine and cannot be fetched',
  unreachable: 'its weights cannot be fetched at the moment',
  refused: 'its weights are not available from their source',
  mismatch: 'its weights do not match their checksum',
  'no-space': 'there is not enough disk space for its weights',
  storage: 'its weights cannot be stored at the moment',
  absent: 'its weights are not installed',
  invalid: 'its weights are not configured correctly',
};

/** These pass without an operator; after all others a retry fails in the same way. */
const PASSING = new Set<WeightsFailure>(['unreachable', 'storage']);

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

  /** What an operator has to do, without hosts and paths. Undefined: the failure passes by itself. */
  remedyFor({ slug, source }: { slug: string; source: SourceSpec }): string | undefined {
    if (PASSING.has(this.failure)) return undefined;
    return `${this.clientReason}. ${this.#actionFor(slug, source)}`;
  }

  #actionFor(slug: string, source: SourceSpec): string {
    if (source.kind === 'file' && source.package !== undefined && this.failure === 'absent') {
      return `Install ${source.package} beside @baobab/server and restart`;
    }
    if (source.kind === 'file' || this.failure === 'invalid') return "Correct 'source' of its catalog entry";
    return this.failure === 'no-space'
      ? `Free some space and run 'baobab models pull ${slug}'`
      : `Run 'baobab models pull ${slug}', which says what is wrong, or serve it from a file or an upstream with 'baobab models add'`;
  }
}

const DISK_FULL = new Set(['ENOSPC', 'EDQUOT']);
const DISK_FAILURES = new Set([...DISK_FULL, 'EACCES', 'EIO', 'EMFILE', 'EPERM', 'EROFS']);

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';

export const isDiskFailure = (error: unknown): boolean => DISK_FAILURES.has(codeOf(error));

export function asWeightsError(error: unknown): WeightsError {
  if (error instanceof WeightsError) return error;
  const failure = DISK_FULL.has(codeOf(error)) ? 'no-space' : 'storage';
  return new WeightsError(failure, `The weights could not be stored: ${systemReason(error)}`, error);
}
