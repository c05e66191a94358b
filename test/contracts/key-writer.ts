import { randomUUID } from 'node:crypto';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { account, apiKey } from './key-fixtures.ts';

/** Creates keys until it is killed and prints the id of each one after the store has acknowledged it. */
const [path = ''] = process.argv.slice(2);
const store = await openStore({ kind: 'sqlite', path });
if (!(await store.accounts.get('acct_1'))) await store.accounts.create(account(), someEntry());

async function lane(): Promise<never> {
  for (;;) {
    const id = `key_${randomUUID()}`;
    const entry = someEntry();
    await store.keys.create(apiKey({ id }), id, { ...entry, target: { ...entry.target, kind: 'key', id } });
    process.stdout.write(`${id}\n`);
  }
}
await Promise.all([lane(), lane(), lane(), lane()]);
