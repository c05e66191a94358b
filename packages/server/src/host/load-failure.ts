import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { EngineCrash } from './process/engine-crash.ts';

/** What a load was doing when it failed. */
export type LoadStage = 'weights' | 'memory' | 'start';

/** A load that failed. `cause` says why. */
export class LoadError extends Error {
  override readonly name = 'LoadError';
  readonly stage: LoadStage;

  constructor(stage: LoadStage, cause: unknown) {
    super(`the stage '${stage}' failed`, { cause });
    this.stage = stage;
  }

  /** Marks the errors of one stage. */
  static async during<T>(stage: LoadStage, work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw new LoadError(stage, error);
    }
  }
}

/** Why a model did not load: a short form for clients, and for operators the reason, which may name paths, and the remedy. */
export interface LoadFailure {
  clientError: ApiError;
  reason: string;
  remedy: string;
}

export function describeFailure(slug: string, error: unknown): LoadFailure {
  const { stage, cause } = error instanceof LoadError ? error : { stage: 'start' as const, cause: error };
  return { clientError: clientErrorOf(slug, cause), reason: reasonOf(cause), remedy: remedyOf(slug, stage, cause) };
}

function clientErrorOf(slug: string, cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  if (cause instanceof EngineCrash) {
    return errors.modelUnavailable(slug, `its engine could not be started: ${cause.message}`, cause);
  }
  return errors.modelUnavailable(slug, 'it could not be loaded', cause);
}

/** The deepest message is the most precise one; the text for clients is left out where there is another. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause !== undefined && error instanceof ApiError) return reasonOf(error.cause);
  return error instanceof EngineCrash ? `its engine process ended while it loaded: ${error.message}` : error.message;
}

function remedyOf(slug: string, stage: LoadStage, cause: unknown): string {
  if (stage === 'weights') return `Check 'source' of its catalog entry, then run: npx baobab models pull ${slug}`;
  if (stage === 'memory') return 'Raise models.memory_budget_mb, or use a smaller model or a shorter context_length';
  if (cause instanceof EngineCrash) {
    return 'If memory ran out, use a smaller model or a shorter context_length; if it needs longer, raise engines.load_timeout_seconds';
  }
  return `Check 'engine' of its catalog entry and its files: npx baobab models verify ${slug}`;
}
