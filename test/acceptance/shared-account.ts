import { randomUUID } from 'node:crypto';
import { inject } from 'vitest';
import { API_KEY } from './start-server.ts';

export interface SharedAccount {
  /** `http://127.0.0.1:…` */
  address: string;
  /** Of an account that no other file uses. */
  apiKey: string;
  /** Of the account `default`, with every scope. */
  adminKey: string;
}

/** A new account on the server that the acceptance tests share. */
export async function openAccount(): Promise<SharedAccount> {
  const address = inject('sharedServer');
  const account = `test-${randomUUID()}`;
  const post = async (path: string, body: object) => {
    const response = await fetch(`${address}/v1/admin/${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as { secret: string };
  };
  await post('accounts', { name: account });
  const { secret } = await post('keys', { account, name: 'test' });
  return { address, apiKey: secret, adminKey: API_KEY };
}
