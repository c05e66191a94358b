import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ResponseEventLog } from '../../../services/responses/event-log.ts';
import type { ResponsesService } from '../../../services/responses/responses.ts';
import { streamedAnswer } from '../../answer/streamed-answer.ts';
import { createAnswerLimit } from '../../request/answer-limit.ts';
import { disconnectSignal, principalOf } from '../../request/request-record.ts';
import { errorEvent, eventsText, eventText, STREAM_END } from './answer.ts';
import { followResponse } from './replay.ts';

/** Streams of stored responses of one account. Each reads what is new from the store by itself. */
const MAX_FOLLOWERS = 128;

export interface FollowerDependencies {
  responses: Pick<ResponsesService, 'get' | 'find'>;
  eventLog: ResponseEventLog;
}

export function createFollower({ responses, eventLog }: FollowerDependencies) {
  return {
    /** Throws 429 when the account follows too many responses. Call it before `follow`. */
    limit: createAnswerLimit(MAX_FOLLOWERS, 'streams of stored responses of this account are open'),

    /** Streams a stored response to its end. */
    async follow(request: FastifyRequest, reply: FastifyReply, id: string, after = -1) {
      const accountId = principalOf(request).account.id;
      const first = await responses.get(accountId, id);
      let sent = after;
      return streamedAnswer(
        request,
        reply,
        async (events) => {
          const last = await followResponse(first, {
            read: () => responses.find(accountId, id),
            eventLog,
            after,
            signal: disconnectSignal(reply),
            write: (written) => {
              sent = written.at(-1)?.sequence_number ?? sent;
              return events.write(eventsText(written));
            },
          });
          return eventsText(last) + STREAM_END;
        },
        // The response may go on: only this stream of it has failed.
        (failure) => eventText(errorEvent(failure, sent + 1)) + STREAM_END,
      );
    },
  };
}

export type Follower = ReturnType<typeof createFollower>;
