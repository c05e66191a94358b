/** Runs one attack in a process of its own, so that it takes no time from the clients that are measured. Ends on SIGTERM. */
import { ATTACKS } from './attacks.ts';

const [name = '', address = '', key = '', remoteModel = '', localModel = ''] = process.argv.slice(2);
const attack = ATTACKS[name];
if (attack === undefined) throw new Error(`there is no attack '${name}'`);
process.on('SIGTERM', () => process.exit(0));
// Sockets that are not read do not keep a process alive.
setInterval(() => {}, 60_000);
process.send?.('started');
process.disconnect?.();
await attack({ address, key, remoteModel, localModel });
