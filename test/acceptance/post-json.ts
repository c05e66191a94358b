import { API_KEY, type RunningServer } from './start-server.ts';

export interface PostOptions {
  secret?: string;
  /** Of the header Idempotency-Key. */
  key?: string;
}

/** Sends a request as a program without an SDK does. */
export const postJson = (
  { address }: Pick<RunningServer, 'address'>,
  path: string,
  body: unknown,
  { secret = API_KEY, key }: PostOptions = {},
): Promise<Response> =>
  fetch(`${address}${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${secret}`,
      'content-type': 'application/json',
      ...(key !== undefined && { 'idempotency-key': key }),
    },
    body: JSON.stringify(body),
  });
