import type { CallContext } from '../engine.ts';

/** The context of a call in a test. */
export const callContext = (
  signal = new AbortController().signal,
  changes: Partial<CallContext> = {},
): CallContext => ({
  requestId: 'req_test',
  signal,
  accountId: 'acc_test',
  keyId: 'key_test',
  priority: 'interactive',
  ...changes,
});
