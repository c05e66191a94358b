/** Runs one attack in its own process, so it does not slow the measured clients. Ends on SIGTERM. */
import { ATTACKS } from './attacks.ts';

const [name = '', address = '', key = '', remoteModel = '', localModel = ''] = process.argv.slice(2);
const attack = ATTACKS[name];
if (attack === undefined) throw new Error(`unknown attack '${name}'`);
process.on('SIGTERM', () => process.exit(0));
// Unread sockets do not keep a process alive.
setInterval(() => {}, 60_000);
process.send?.('started');
process.disconnect?.();
await attack({ address, key, remoteModel, localModel });
