import type { FastifyReply, RouteOptions } from 'fastify';
import plugin from 'fastify-plugin';
import type { ApiError } from '../../errors/api-error.ts';
import { errors } from '../../errors/errors.ts';
import { principalOf } from '../request/request-record.ts';

/** Of one account and kind. The console loads about as many lists at once. */
const AT_ONCE = 4;
const MAX_WAITING = 100;

interface Turns {
  running: number;
  waiting: Set<() => void>;
}

/** Fastify answers a HEAD with the work of the GET, and makes its route from the options before they were changed here. */
const METHODS: readonly string[] = ['GET', 'HEAD'];

/** A GET or HEAD without a parameter in its path, or of the items of one object, except for streams of events. */
function isListOrReport({ method, url, config }: RouteOptions): boolean {
  if (![method].flat().some((each) => METHODS.includes(each)) || (/[:*]/.test(url) && !url.endsWith('items')))
    return false;
  return !config?.documented?.answers?.includes('text/event-stream');
}

/** Turns of accounts in requests of one kind, in order of arrival. */
class AccountTurns {
  readonly #accounts = new Map<string, Turns>();
  readonly #tooMany: () => ApiError;

  constructor(tooMany: () => ApiError) {
    this.#tooMany = tooMany;
  }

  /** Resolves when it is the request's turn. Call `end` after that. Rejects when its client leaves or too many wait. */
  async begin(accountId: string, { raw }: FastifyReply): Promise<void> {
    // `close` will not be emitted again, so it would wait for a turn in vain.
    if (raw.destroyed) throw errors.clientCancelled();
    const turns = this.#accounts.get(accountId) ?? { running: 0, waiting: new Set() };
    if (turns.waiting.size >= MAX_WAITING) throw this.#tooMany();
    this.#accounts.set(accountId, turns);
    if (turns.running >= AT_ONCE) {
      await waitIn(turns.waiting, raw);
      return;
    }
    turns.running += 1;
  }

  end(accountId: string): void {
    // Not at once: the answer is written first, and what has arrived from others meanwhile.
    setImmediate(() => this.#next(accountId));
  }

  #next(accountId: string): void {
    const turns = this.#accounts.get(accountId);
    if (turns === undefined) return;
    const [begin] = turns.waiting;
    if (begin !== undefined) begin();
    else {
      turns.running -= 1;
      if (turns.running === 0) this.#accounts.delete(accountId);
    }
  }
}

function waitIn(waiting: Turns['waiting'], raw: FastifyReply['raw']): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = () => {
      waiting.delete(begin);
      reject(errors.clientCancelled());
    };
    const begin = () => {
      raw.off('close', leave);
      waiting.delete(begin);
      resolve();
    };
    raw.once('close', leave);
    waiting.add(begin);
  });
}

/**
 * Lists, reports and changes have no rate limit, and counts of tokens only one of requests. A long list or prompt takes milliseconds of
 * the event loop, and changes wait for each other in the store. Those of one account take turns, so that the requests of others wait for a
 * few of them at most. A turn lasts as long as the work: a client that leaves does not end it.
 */
export const accountTurns = plugin(async (server) => {
  const reports = new AccountTurns(errors.tooManyReports);
  const changes = new AccountTurns(errors.tooManyChanges);
  const counts = new AccountTurns(errors.tooManyCounts);
  const turnsOf = (route: RouteOptions): AccountTurns | undefined => {
    if (isListOrReport(route)) return reports;
    if (route.config?.isChange) return changes;
    return route.config?.isCount ? counts : undefined;
  };
  server.addHook('onRoute', (route) => {
    const turns = turnsOf(route);
    if (turns === undefined) return;
    const { handler } = route;
    route.handler = async function (request, reply) {
      const { id } = principalOf(request).account;
      await turns.begin(id, reply);
      try {
        return await handler.call(this, request, reply);
      } finally {
        turns.end(id);
      }
    };
  });
});

declare module 'fastify' {
  interface FastifyContextConfig {
    /** It changes what is stored, and does nothing else that takes long: those of one account take turns. */
    isChange?: boolean;
    /** It counts the tokens of a prompt, which is free: those of one account take turns. */
    isCount?: boolean;
  }
}
