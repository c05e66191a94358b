import { requestCounts } from '@baobab/core/domain/batch.ts';
import { usdNumber } from '@baobab/core/domain/money.ts';
import { isoTime } from '@baobab/core/domain/time/dates.ts';
import type { LiveEvent } from '../../../services/live/live-feed.ts';
import { engineToWire } from '../admin/engines/answer.ts';
import { requestToWire } from '../requests/answer.ts';

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
