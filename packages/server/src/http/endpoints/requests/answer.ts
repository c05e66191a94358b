import { toFields } from '@baobab/core/domain/measures.ts';
import { usdNumber } from '@baobab/core/domain/money.ts';
import type { HiddenText } from '@baobab/core/domain/principal.ts';
import { isoTime } from '@baobab/core/domain/time/dates.ts';
import type { RequestText } from '@baobab/core/ports/request-texts.ts';
import type { Static } from 'typebox';
import type { NamedRequest } from '../../../services/requests/requests.ts';
import type { RequestDetail, RequestEntryShape } from './schema.ts';

export const requestToWire = (entry: NamedRequest): Static<typeof RequestEntryShape> => ({
  id: entry.id,
  object: 'request',
  time: isoTime(entry.time),
  account_id: entry.accountId,
  key: entry.keyId,
  key_name: entry.keyName,
  endpoint: entry.endpoint,
  model: entry.model,
  version: entry.version,
  region: entry.region,
  status: entry.status,
  code: entry.code,
  message: entry.message,
  ...toFields(entry),
  cost_usd: usdNumber(BigInt(entry.costNanoUsd)),
  duration_ms: entry.durationMs,
  first_token_ms: entry.firstTokenMs,
  replayed: entry.replayed,
});

export interface DetailOptions {
  /** With the addresses and answers of upstreams. */
  forOperators: boolean;
  text: RequestText | undefined;
  textUnavailable: HiddenText | null;
}

export const requestDetailToWire = (
  entry: NamedRequest,
  { forOperators, text, textUnavailable }: DetailOptions,
): Static<typeof RequestDetail> => ({
  ...requestToWire(entry),
  text: text ? { prompt: text.prompt, answer: text.answer, truncated: text.truncated } : null,
  text_unavailable: textUnavailable,
  attempts: entry.attempts.map(({ upstream, region, outcome, detail, durationMs }) => ({
    upstream: forOperators ? upstream : null,
    region,
    outcome,
    detail: forOperators ? detail : null,
    duration_ms: durationMs,
  })),
});
