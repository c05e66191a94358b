import { errors } from '@baobab/core/errors/errors.ts';
import { turnShares } from '@baobab/core/runtime/turn-shares.ts';
import type { FastifyRequest, RouteOptions } from 'fastify';
import plugin from 'fastify-plugin';
import { type AccountTurns, createAccountTurns } from '../../admission/account-turns.ts';
import { disconnectSignal, principalOf, turnShareOf } from '../request/request-record.ts';

/** Running requests of one account and kind. The console loads about as many lists at once. */
const AT_ONCE = 4;
const MAX_WAITING = 100;
/** What a report or another long answer takes of the event loop: its statement, and each byte that is read from the store and written to JSON. */
const LONG_ANSWER_BYTES = 8_192;
const ANSWER_MS = 0.8;
const BYTES_PER_MS = 60_000;

/** Fastify answers a HEAD with the work of the GET, and makes its route from the options before they were changed here. */
const METHODS: readonly string[] = ['GET', 'HEAD'];

/** A GET or HEAD without a parameter in its path, or of the items of one object, except for streams of events. */
function isListOrReport({ method, url, config }: RouteOptions): boolean {
  if (![method].flat().some((each) => METHODS.includes(each)) || (/[:*]/.test(url) && !url.endsWith('items')))
    return false;
  return !config?.documented?.answers?.includes('text/event-stream');
}

/**
 * Lists, reports and changes have no rate limit, and counts of tokens only one of requests. A long list or prompt takes milliseconds of
 * the event loop, and changes wait for each other in the store. Those of one account take turns, so that the requests of others wait for a
 * few of them at most. A turn lasts as long as the work: a client that leaves does not end it.
 */
export const accountTurns = plugin(async (server) => {
  const turnsFor = (what: string, advice: string, atOnce = AT_ONCE, most = MAX_WAITING): AccountTurns =>
    createAccountTurns({
      atOnce,
      waiting: { most, refusal: () => errors.tooManyAtOnce(`${what} of this account are waiting`, advice) },
    });
  const reports = turnsFor('lists and reports', 'Ask for fewer at a time.');
  const changes = turnsFor('changes', 'Send fewer at a time.');
  const allCounts = turnsFor('token counts', 'Send fewer at a time.', AT_ONCE + MAX_WAITING, 0);
  const countsOfModel = createAccountTurns({ atOnce: AT_ONCE });
  const turnsOf = (route: RouteOptions): AccountTurns | undefined => {
    if (isListOrReport(route)) return reports;
    if (route.config?.isChange) return changes;
    return route.config?.isCount ? allCounts : undefined;
  };
  /** Those that wait for a model that is being loaded do not hold up those for other models. */
  const inTurnOfModel = <T>(
    { body }: FastifyRequest,
    accountId: string,
    work: () => Promise<T>,
    signal: AbortSignal,
  ) => {
    const model = typeof body === 'object' && body !== null && 'model' in body ? String(body.model) : '';
    return countsOfModel.run(`${accountId} ${model}`, work, signal);
  };
  server.addHook('onRoute', (route) => {
    const turns = turnsOf(route);
    if (turns === undefined) return;
    const { handler } = route;
    route.handler = async function (request, reply) {
      const principal = principalOf(request);
      const work = async () => {
        try {
          return await handler.call(this, request, reply);
        } finally {
          // The answer is written to JSON next, at once. A refusal waits too, or its client would ask again and again.
          await turnShares.take(turnShareOf(principal));
        }
      };
      const { id } = principal.account;
      const signal = disconnectSignal(reply);
      return turns.run(id, () => (turns === allCounts ? inTurnOfModel(request, id, work, signal) : work()), signal);
    };
    route.onSend = [
      ...[route.onSend ?? []].flat(),
      (request, _reply, payload, done) => {
        const { isReport } = request.record;
        if (typeof payload === 'string' && (isReport || payload.length > LONG_ANSWER_BYTES)) {
          turnShares.rest(turnShareOf(principalOf(request)), ANSWER_MS + payload.length / BYTES_PER_MS);
        }
        done();
      },
    ];
  });
});

declare module 'fastify' {
  interface FastifyContextConfig {
    /** It changes what is stored, and does nothing else that takes long: those of one account take turns. */
    isChange?: boolean;
    /** It counts the tokens of a prompt, which is free: those of one account for one model take turns. */
    isCount?: boolean;
  }
}
