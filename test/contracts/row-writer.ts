import { openStore } from '../../packages/server/src/adapters/store.ts';
import { ledgerRow } from './ledger.ts';
import { say } from './say.ts';

/** Appends fresh rows until it is killed; prints `sent <id>` before each and `done <id>` after it was acknowledged. */
const [path = '', life = ''] = process.argv.slice(2);
const store = await openStore(
  { kind: 'sqlite', path },
  {
    journal: {
      onError(error) {
        throw error;
      },
    },
  },
);

let last = 0;
async function lane(): Promise<never> {
  for (;;) {
    const id = `${life}-${last++}`;
    await say(`sent ${id}`);
    await store.ledger.appendFresh([ledgerRow({ billingId: id, requestId: id })]);
    await say(`done ${id}`);
  }
}
await Promise.all(Array.from({ length: 8 }, lane));
