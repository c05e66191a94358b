import { acquireDataDirLock } from '../../packages/server/src/adapters/data-dir-lock.ts';

/** Takes the lock, says so, and keeps it until it is killed. */
await acquireDataDirLock(process.argv[2] ?? '');
process.stdout.write('locked\n');
setInterval(() => {}, 60_000);
