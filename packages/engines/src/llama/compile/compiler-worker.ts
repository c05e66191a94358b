import { Worker } from 'node:worker_threads';
import type { Field, FieldText } from '@baobab/core/errors/fields.ts';
import type { ErrorCode } from '@baobab/core/errors/kinds.ts';
import type { GrammarRequest, RequestGrammars } from './request-grammars.ts';

/** What a compiler thread sends: once that it can start, then one outcome for each request. */
export type FromCompiler = { type: 'ready' } | CompileOutcome;

export type CompileOutcome =
  | { type: 'compiled'; grammars: RequestGrammars }
  | { type: 'refused'; code: ErrorCode; text: string | FieldText; field?: Field | undefined }
  /** It took too much time, stack or memory. */
  | { type: 'exhausted' }
  | { type: 'failed'; message: string };

/** A thread that compiles one request at a time and is terminated when that takes too long. */
export interface CompilerWorker {
  /** Never rejects. */
  run(request: GrammarRequest): Promise<CompileOutcome>;
  /** It was terminated or has crashed. */
  readonly stopped: boolean;
  stop(): Promise<void>;
}

const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 };

const THREAD = new URL('./compiler-thread.ts', import.meta.url);

export function startCompilerWorker(timeLimitMs: number, module: URL = THREAD): CompilerWorker {
  const worker = new Worker(module, {
    name: 'grammar-compiler',
    resourceLimits: RESOURCE_LIMITS,
    env: {},
  });
  worker.unref();
  const ready = Promise.withResolvers<void>();
  let stopped = false;
  let settle: (outcome: CompileOutcome) => void = () => {};

  const stop = (outcome: CompileOutcome) => {
    stopped = true;
    ready.resolve();
    settle(outcome);
  };
  worker.on('message', (message: FromCompiler) => (message.type === 'ready' ? ready.resolve() : settle(message)));
  worker.on('error', (error: NodeJS.ErrnoException) => {
    const outOfMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY';
    stop(outOfMemory ? { type: 'exhausted' } : { type: 'failed', message: error.stack ?? error.message });
  });
  worker.on('exit', () => stop({ type: 'failed', message: 'The thread that compiles grammars has ended' }));

  return {
    get stopped() {
      return stopped;
    },
    async run(request) {
      const { promise, resolve } = Promise.withResolvers<CompileOutcome>();
      settle = resolve;
      worker.postMessage(request);
      // Starting a thread takes longer than most schemas, so the time counts from there.
      await ready.promise;
      const timer = setTimeout(() => {
        stop({ type: 'exhausted' });
        void worker.terminate();
      }, timeLimitMs);
      try {
        return await promise;
      } finally {
        clearTimeout(timer);
      }
    },
    async stop() {
      await worker.terminate();
    },
  };
}
