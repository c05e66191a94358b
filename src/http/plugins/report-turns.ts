import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import plugin from 'fastify-plugin';
import { errors } from '../../errors/errors.ts';
import { principalOf } from '../request/request-record.ts';

/** Of one account. The console loads about as many at once. */
const AT_ONCE = 4;
const MAX_WAITING = 100;

interface Turns {
  running: number;
  waiting: Set<() => void>;
}

/** Fastify answers a HEAD with the work of the GET, and makes its route from the options before they were changed here. */
const METHODS: readonly string[] = ['GET', 'HEAD'];

/** A GET or HEAD without a parameter in its path, except for streams of events. */
function isListOrReport({ method, url, config }: RouteOptions): boolean {
  if (![method].flat().some((each) => METHODS.includes(each)) || /[:*]/.test(url)) return false;
  return !config?.documented?.answers?.includes('text/event-stream');
}

/**
 * Lists and reports have no rate limit, and a long one takes milliseconds of the event loop. Those of one account take turns, so that the
 * requests of others wait for a few of them at most.
 */
export const reportTurns = plugin(async (server) => {
  const accounts = new Map<string, Turns>();

  function next(accountId: string, turns: Turns): void {
    const [begin] = turns.waiting;
    if (begin === undefined) {
      turns.running -= 1;
      if (turns.running === 0) accounts.delete(accountId);
      return;
    }
    turns.waiting.delete(begin);
    begin();
  }

  function takeTurn(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void {
    const { id } = principalOf(request).account;
    // Its `close` has been emitted already, and it would keep its turn forever.
    if (reply.raw.destroyed) {
      done(errors.clientCancelled());
      return;
    }
    const turns = accounts.get(id) ?? { running: 0, waiting: new Set() };
    if (turns.waiting.size >= MAX_WAITING) {
      done(errors.tooManyReports());
      return;
    }
    accounts.set(id, turns);
    let isOver = false;
    const begin = () => {
      request.endTurn = () => {
        if (isOver) return;
        isOver = true;
        // Not at once: what has arrived from others meanwhile goes first.
        setImmediate(next, id, turns);
      };
      done();
    };
    reply.raw.once('close', () => {
      turns.waiting.delete(begin);
      request.endTurn?.();
    });
    if (turns.running < AT_ONCE) {
      turns.running += 1;
      begin();
    } else turns.waiting.add(begin);
  }

  server.decorateRequest('endTurn');
  server.addHook('onRoute', (route) => {
    if (!isListOrReport(route)) return;
    route.preHandler = [takeTurn, ...[route.preHandler ?? []].flat()];
    // The answer is ready; its client may take long to read it.
    route.onSend = [
      ...[route.onSend ?? []].flat(),
      (request: FastifyRequest, _reply: FastifyReply, _payload: unknown, done: () => void) => {
        request.endTurn?.();
        done();
      },
    ];
  });
});

declare module 'fastify' {
  interface FastifyRequest {
    /** Ends the turn of a list or report. Only the first call counts. */
    endTurn: (() => void) | undefined;
  }
}
