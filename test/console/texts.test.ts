import { expect, it } from 'vitest';
import { failures } from '../../packages/console/src/texts/en/failures.ts';
import { texts } from '../../packages/console/src/texts/en/texts.ts';
import { KINDS } from '../../packages/core/src/errors/kinds.ts';

/** A request that is listed has a key and ran a model: these errors come before that, or elsewhere. */
const NEVER_LISTED = [
  'missing_api_key',
  'invalid_api_key',
  'expired_api_key',
  'session_expired',
  'csrf_token_invalid',
  'key_not_allowed',
  'batch_not_found',
  'request_not_found',
  'unknown_endpoint',
];

it('calls a 429 what it is for rates and for budgets', () => {
  const limits = Object.entries(KINDS).filter(([, { status }]) => status === 429);
  expect(limits.map(([code]) => code)).toEqual(expect.arrayContaining(['rpm_exceeded', 'budget_exceeded']));
  expect([texts.outcomes.limited, texts.requests.statuses['429']].join()).not.toMatch(/rate|budget/i);
});

it('says of every error code why a request failed and what to do', () => {
  const listed = Object.keys(KINDS).filter((code) => !NEVER_LISTED.includes(code));
  expect(Object.keys(failures).sort()).toEqual(listed.sort());
});
