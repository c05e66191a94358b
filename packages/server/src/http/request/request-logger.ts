import type { FastifyBaseLogger } from 'fastify';

type Bindings = Parameters<FastifyBaseLogger['child']>[0];
type Options = Parameters<FastifyBaseLogger['child']>[1];
type Level = (typeof LEVELS)[number];

const LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

type Parent = FastifyBaseLogger & { isLevelEnabled?(level: string): boolean };

/** Fastify needs a logger for every request, but few requests write to it: the child is created on first use. */
class RequestLogger {
  readonly #parent: Parent;
  readonly #bindings: Bindings;
  readonly #options: Options;
  #own: FastifyBaseLogger | undefined;

  constructor(parent: Parent, bindings: Bindings, options: Options) {
    this.#parent = parent;
    this.#bindings = bindings;
    this.#options = options;
  }

  get own(): FastifyBaseLogger {
    this.#own ??= this.#parent.child(this.#bindings, this.#options);
    return this.#own;
  }

  /** Whether lines of this level are written. */
  writes(level: Level): boolean {
    return this.#parent.isLevelEnabled?.(level) ?? true;
  }

  get level(): string {
    return this.#parent.level;
  }

  child(...args: Parameters<FastifyBaseLogger['child']>): FastifyBaseLogger {
    return this.own.child(...args);
  }
}

for (const level of LEVELS) {
  Object.defineProperty(RequestLogger.prototype, level, {
    value(this: RequestLogger, ...args: Parameters<FastifyBaseLogger[Level]>) {
      if (this.writes(level)) this.own[level](...args);
    },
  });
}

/** Whether lines of this level are written: saves building those that are not. */
export const writesLevel = (logger: FastifyBaseLogger, level: Level): boolean =>
  !(logger instanceof RequestLogger) || logger.writes(level);

export const createRequestLogger = (
  parent: FastifyBaseLogger,
  bindings: Bindings,
  options: Options,
): FastifyBaseLogger => new RequestLogger(parent, bindings, options) as unknown as FastifyBaseLogger;
