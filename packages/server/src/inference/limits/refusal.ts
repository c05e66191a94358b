import { exceedsBudget } from '@baobab/core/domain/budget.ts';
import type { Modality } from '@baobab/core/domain/model.ts';
import { usdText } from '@baobab/core/domain/money.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { FieldText } from '@baobab/core/errors/fields.ts';
import type { ErrorCode } from '@baobab/core/errors/kinds.ts';
import type { AdmissionAnswer, BudgetLevel } from '@baobab/core/ports/counters.ts';
import type { Budget, LimitOwner, Series } from './ceilings.ts';

/** A limit that refuses the request, and for how long. */
interface Obstacle {
  code: ErrorCode;
  waitMs: number;
  message: string | FieldText;
}

const SMALLER: Readonly<Record<Modality, FieldText>> = {
  chat: ['a lower ', ['maxTokens']],
  embedding: ['fewer or shorter inputs'],
  rerank: ['fewer or shorter documents'],
  audio: ['a shorter recording'],
};

/** What is reserved: all that the request may cost, its first step if it is open, or what it costs once its prompt was counted. */
export type ReservedPart = 'all' | 'first' | 'counted';

const MAY_COST: Readonly<Record<ReservedPart, (usd: string) => string>> = {
  all: (usd) => `This request may cost ${usd} USD at most`,
  first: (usd) => `The first step of this request may cost ${usd} USD (more is reserved step by step while it runs)`,
  counted: (usd) => `This request may cost ${usd} USD now that its whole prompt is counted`,
};

export interface Ceilings {
  modality: Modality;
  series: Series;
  /** The estimated size of the request. */
  tokens: number;
  budgets: readonly Budget[];
  reserveNanoUsd: number;
  /** What the smallest request of its kind costs. */
  leastNanoUsd?: number | undefined;
  part: ReservedPart;
  now: number;
}

/** When a running request ends is unknown. This is the shortest time a client can be given. */
const SOON_MS = 1_000;

type Refused = Extract<AdmissionAnswer, { kind: 'refused' }>;

/** Names the obstacle that lasts longest: the request would not pass earlier. */
export function refusal(answer: Refused, ceilings: Ceilings): ApiError {
  const { code, message, waitMs } = obstacles(answer, ceilings).reduce((one, other) =>
    other.waitMs > one.waitMs ? other : one,
  );
  return new ApiError(code, message, { retryAfterSeconds: waitMs / 1000 });
}

const COUNTED_FOR: Readonly<Record<LimitOwner, string>> = {
  key: 'this model and region',
  account: 'this model, over all its keys',
};

const requestsText = (count: number | null): string => (count === 1 ? '1 request' : `${count} requests`);

const reservedText = ({ reservedNanoUsd }: BudgetLevel): string =>
  reservedNanoUsd > 0 ? ` while ${usdText(reservedNanoUsd)} USD are reserved for running requests` : '';

function retryText(waitMs: number): string {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return `Try again in ${seconds === 1 ? '1 second' : `${seconds} seconds`}.`;
}

function obstacles(answer: Refused, ceilings: Ceilings): Obstacle[] {
  const { modality, series, tokens, budgets, now, reserveNanoUsd, leastNanoUsd = 0, part } = ceilings;
  const found: Obstacle[] = [];
  for (const [index, { perMinute, owner }] of series.requests.buckets.entries()) {
    const { waitMs = 0 } = answer.requests[index] ?? {};
    found.push({
      code: 'rpm_exceeded',
      waitMs,
      message:
        `This ${owner} has used its limit of ${requestsText(perMinute)} per minute for ${COUNTED_FOR[owner]}. ` +
        retryText(waitMs),
    });
  }
  for (const [index, { perMinute, owner }] of series.tokenBuckets.entries()) {
    const { waitMs = 0, remaining = 0 } = answer.tokens[index] ?? {};
    found.push({
      code: 'tpm_exceeded',
      waitMs,
      message:
        `This request needs about ${tokens} tokens, but this ${owner} has ${remaining} of its ${perMinute} tokens per minute ` +
        `left for ${COUNTED_FOR[owner]}. ${retryText(waitMs)}`,
    });
  }
  for (const [index, { limit, owner }] of series.concurrency.entries()) {
    if (!answer.concurrencyExceeded[index]) continue;
    found.push({
      code: 'concurrency_exceeded',
      waitMs: SOON_MS,
      message: `This ${owner} may have ${requestsText(limit)} running at a time. Wait until one ends.`,
    });
  }
  for (const [index, { owner, limitNanoUsd, endsAt }] of budgets.entries()) {
    const level = answer.budgets[index];
    if (!level?.exceeded) continue;
    const { spentNanoUsd } = level;
    const leftNanoUsd = Math.max(0, limitNanoUsd - spentNanoUsd - level.reservedNanoUsd);
    const reset = `resets at ${new Date(endsAt).toISOString()}`;
    // A reservation may be given back as soon as a running request ends.
    const usedUp = exceedsBudget({ limitNanoUsd, reserveNanoUsd }, spentNanoUsd, 0);
    found.push({
      code: 'budget_exceeded',
      waitMs: usedUp ? endsAt - now : SOON_MS,
      message:
        spentNanoUsd >= limitNanoUsd
          ? `The monthly budget of ${usdText(limitNanoUsd)} USD of this ${owner} is spent; it ${reset}.`
          : [
              `${MAY_COST[part](usdText(reserveNanoUsd))}, but this ${owner} has ${usdText(leftNanoUsd)} USD of its ` +
                `monthly budget of ${usdText(limitNanoUsd)} USD left${reservedText(level)}. `,
              ...(leastNanoUsd > leftNanoUsd
                ? [
                    `Even the least that this model bills costs ${usdText(leastNanoUsd)} USD: use a cheaper model, or have the budget raised`,
                  ]
                : ['Ask for less, such as ', ...SMALLER[modality]]),
              `; the budget ${reset}.`,
            ],
    });
  }
  return found;
}
