/**
 * Restarts two servers behind a proxy, one after the other, again and again, under load. No request may fail.
 *
 *   npm run rolling-restart -- [--proxies haproxy,caddy,nginx] [--requests 10000]
 *
 * The proxies run the recipes of deploy/. One that is not installed is left out. `nginx-alone` restarts servers without telling nginx first.
 */
import { parseArgs } from 'node:util';
import { PROXIES } from './proxies.ts';
import { startBehind } from './rolling-restart.ts';

const LANES = 8;

const { values } = parseArgs({
  options: {
    proxies: { type: 'string', default: 'haproxy,caddy,nginx' },
    requests: { type: 'string', default: '10000' },
  },
});
let failed = 0;
for (const name of values.proxies.split(',')) {
  const kind = PROXIES.find((each) => each.name === name);
  if (kind === undefined)
    throw new Error(`--proxies: ${name} is none of ${PROXIES.map((each) => each.name).join(', ')}`);
  if (kind.missing !== undefined) {
    console.log(`${name} is left out: ${kind.missing}`);
    continue;
  }
  await using servers = await startBehind(kind);
  const { sent, restarts, failures } = await servers.restart({
    requests: Number(values.requests),
    lanes: LANES,
    onRestart: (restarted) => console.log(`${name}, ${restarted}`),
  });
  console.log(`${name}: ${sent} requests while servers were restarted ${restarts} times, ${failures.length} failed`);
  for (const failure of failures.slice(0, 20)) console.log(`FAILED ${name} ${failure}`);
  failed += failures.length;
}
process.exit(failed === 0 ? 0 : 1);
