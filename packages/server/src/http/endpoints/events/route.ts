import { requestCounts } from '@baobab/core/domain/batch.ts';
import { usdNumber } from '@baobab/core/domain/money.ts';
import { isOperator } from '@baobab/core/domain/operations.ts';
import type { Principal } from '@baobab/core/domain/principal.ts';
import { isoTime } from '@baobab/core/domain/time/dates.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { AccountsService } from '../../../services/access/accounts.ts';
import type { AuthenticationService } from '../../../services/access/authentication.ts';
import type { LiveEvent, LiveFeed } from '../../../services/live/live-feed.ts';
import { commonErrors } from '../../answer/error-answer.ts';
import { streamedAnswer } from '../../answer/event-stream.ts';
import { AccountChoice, chosenAccount } from '../../request/account-choice.ts';
import { disconnectSignal, principalOf, type RequestRecord } from '../../request/request-record.ts';
import { engineToWire } from '../admin/engines/answer.ts';
import { requestToWire } from '../requests/answer.ts';
import { EVENTS } from './schema.ts';

function dataOf(event: LiveEvent, inFlight: () => number): unknown {
  switch (event.kind) {
    case 'counters': {
      const { requests, errors, promptTokens, completionTokens, costNanoUsd } = event.lastMinute;
      return {
        time: isoTime(event.time),
        in_flight: inFlight(),
        last_minute: {
          requests,
          errors,
          prompt_tokens: promptTokens,
          completion_tokens: completionTokens,
          cost_usd: usdNumber(BigInt(costNanoUsd)),
        },
      };
    }
    case 'requests':
      return { data: event.entries.map(requestToWire) };
    case 'batch': {
      const { id, accountId, status } = event.batch;
      return { id, account_id: accountId, status, request_counts: requestCounts(event.batch) };
    }
    case 'engine':
      return engineToWire(event.engine);
  }
}

/** As a server-sent event. */
export const eventText = (event: LiveEvent, inFlight: () => number): string =>
  `event: ${event.kind}\ndata: ${JSON.stringify(dataOf(event, inFlight))}\n\n`;

export interface EventsDependencies {
  feed: LiveFeed;
  accounts: Pick<AccountsService, 'find'>;
  authentication: Pick<AuthenticationService, 'authenticateKey' | 'onChange'>;
}

const MAX_PER_KEY = 10;
/** An account may have 1 000 keys: without this bound it could take all streams. */
const MAX_PER_ACCOUNT = 50;
const MAX_STREAMS = 1_000;
/** A client with more than this unread is disconnected. Browsers reconnect and get the whole state again. */
const MAX_UNREAD_BYTES = 262_144;
/** A key or session that expires is noticed after this time at most. A revoked key is noticed at once. */
const CHECK_MS = 500;

export const eventRoutes: FastifyPluginAsyncTypebox<EventsDependencies> = async (server, dependencies) => {
  const { feed, accounts, authentication } = dependencies;
  const streams = new Set<{ principal: Principal; check(): void; end(): void }>();
  // Open streams must not hold up a shutdown.
  server.addHook('preClose', async () => {
    for (const { end } of [...streams]) end();
  });
  const unsubscribe = authentication.onChange((isConcerned) => {
    for (const { principal, check } of streams) if (isConcerned(principal)) check();
  });
  server.addHook('onClose', async () => unsubscribe());

  const inFlight = (accountId: string | undefined): number =>
    server.running.count((request) => {
      const { isRunning, principal } = request as RequestRecord;
      return isRunning && (accountId === undefined || principal?.account.id === accountId);
    });

  server.get(
    '/events',
    {
      config: { operation: 'events.stream', documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Stream counters, requests and batches live; for operators also engines',
        description:
          'Server-sent events: `event` is `counters`, `requests`, `batch` or `engine`, and `data` is JSON with the field of the same name below.',
        tags: ['Usage'],
        querystring: Type.Object({
          account: AccountChoice,
        }),
        response: { 200: Type.Object(EVENTS), ...commonErrors },
      },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      const { key, account } = principal;
      const accountId = await chosenAccount(request, accounts, request.query.account);
      const ofAccount = [...streams].filter((stream) => stream.principal.account.id === account.id);
      const ofKey = ofAccount.filter((stream) => stream.principal.key.id === key.id);
      const isFull = ofAccount.length >= MAX_PER_ACCOUNT || streams.size >= MAX_STREAMS;
      if (ofKey.length >= MAX_PER_KEY || isFull)
        throw errors.tooManyAtOnce('event streams of this key or account are open', 'Close some of them.');

      const { promise: ended, resolve: end } = Promise.withResolvers<void>();
      const signal = disconnectSignal(reply);
      // The client has left: the event below has passed, and nothing would end the stream.
      signal.throwIfAborted();
      signal.addEventListener('abort', () => end(), { once: true });
      const { session } = request.record;
      const check = () => {
        if (session !== undefined && session.expiresAt <= Date.now()) end();
        void Promise.resolve()
          .then(() => authentication.authenticateKey(key.id))
          .catch(() => end());
      };
      const stream = { principal, check, end };
      streams.add(stream);
      const timer = setInterval(check, CHECK_MS);

      return await streamedAnswer(request, reply, async (events) => {
        const leave = feed.subscribe({
          accountId,
          forOperators: isOperator(key),
          send(event) {
            if (signal.aborted) return;
            if (reply.raw.writableLength > MAX_UNREAD_BYTES) reply.raw.destroy();
            else void Promise.resolve(events.write(eventText(event, () => inFlight(accountId)))).catch(() => end());
          },
        });
        await ended;
        clearInterval(timer);
        streams.delete(stream);
        leave();
        return '';
      });
    },
  );
};
