import { usdText } from '../domain/money.ts';
import { ApiError } from '../errors/api-error.ts';
import type { ErrorCode } from '../errors/kinds.ts';
import type { AdmissionAnswer, BudgetLevel } from '../ports/counters.ts';
import type { Budget } from './budgets.ts';

/** A limit that stands in the way of a request, and for how long. */
interface Obstacle {
  code: ErrorCode;
  waitMs: number;
  message: string;
}

export interface Ceilings {
  limits: { rpm: number; tpm: number; concurrency: number | null };
  /** What the request counted as, before its real size was known. */
  tokens: number;
  budgets: readonly Budget[];
  reserveNanoUsd: number;
  now: number;
}

/** Nobody knows when a running request ends; the shortest time that a client can be told. */
const SOON_MS = 1_000;

type Refused = Exclude<AdmissionAnswer, { kind: 'unopened' }>;

/** Of all that stands in the way, what lasts longest is told: before that, the request would not pass. */
export function refusal(answer: Refused, ceilings: Ceilings): ApiError {
  const { code, message, waitMs } = obstacles(answer, ceilings).reduce((one, other) =>
    other.waitMs > one.waitMs ? other : one,
  );
  return new ApiError(code, message, { retryAfterSeconds: waitMs / 1000 });
}

const requestsText = (count: number | null): string => (count === 1 ? '1 request' : `${count} requests`);

const held = ({ reservedNanoUsd }: BudgetLevel): string =>
  reservedNanoUsd > 0 ? `, and ${usdText(reservedNanoUsd)} USD held back for requests that run` : '';

function obstacles(answer: Refused, ceilings: Ceilings): Obstacle[] {
  const { limits, tokens, budgets, now, reserveNanoUsd } = ceilings;
  const found: Obstacle[] = [
    {
      code: 'rpm_exceeded',
      waitMs: answer.requests.waitMs,
      message: `The limit of ${requestsText(limits.rpm)} a minute for this key, model and region is used up.`,
    },
    {
      code: 'tpm_exceeded',
      waitMs: answer.tokens.waitMs,
      message:
        `Of the limit of ${limits.tpm} tokens a minute for this key, model and region ${answer.tokens.remaining} are left, ` +
        `and this request takes ${tokens} at first, an estimate of its size.`,
    },
  ];
  if (answer.concurrencyExceeded) {
    found.push({
      code: 'concurrency_exceeded',
      waitMs: SOON_MS,
      message: `This key may have ${requestsText(limits.concurrency)} running at a time. Wait until one ends.`,
    });
  }
  for (const [index, { owner, limitNanoUsd, endsAt }] of budgets.entries()) {
    const level = answer.budgets[index];
    if (!level?.exceeded) continue;
    const { spentNanoUsd } = level;
    // What is only held back for running requests may come free as soon as one of them ends.
    const budget = `The monthly budget of ${usdText(limitNanoUsd)} USD of this ${owner}`;
    const anew = `it begins anew at ${new Date(endsAt).toISOString()}`;
    const usedUp = spentNanoUsd >= limitNanoUsd || spentNanoUsd + reserveNanoUsd > limitNanoUsd;
    found.push({
      code: 'budget_exceeded',
      waitMs: usedUp ? endsAt - now : SOON_MS,
      message:
        spentNanoUsd >= limitNanoUsd
          ? `${budget} is spent; ${anew}.`
          : `${budget} does not cover this request, which may cost ${usdText(reserveNanoUsd)} USD: ` +
            `${usdText(spentNanoUsd)} USD are spent${held(level)}. Ask for less, such as a lower max_tokens; ${anew}.`,
    });
  }
  return found;
}
