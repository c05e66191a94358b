import { setTimeout as sleep } from 'node:timers/promises';
import { residentMb } from '../../bench/measure.ts';
import type { RunningServer } from '../../test/acceptance/start-server.ts';

/** For the server's environment: its inspector uses any free port. */
export const INSPECTOR_ENV = { NODE_OPTIONS: '--inspect-port=0' };

const PAUSE_MS = 1_000;
/** V8 returns pages to the system some seconds after a collection. */
const LONGEST_MS = 20_000;

/** Resident memory after a full collection, when V8 returns no more pages. */
export async function residentAtRestMb(server: RunningServer): Promise<number> {
  await collectGarbage(server);
  const pid = server.process.pid ?? 0;
  const deadline = performance.now() + LONGEST_MS;
  let quietPauses = 0;
  let least = residentMb(pid);
  while (quietPauses < 5 && performance.now() < deadline) {
    await sleep(PAUSE_MS);
    const now = residentMb(pid);
    quietPauses = now < least - 1 ? 0 : quietPauses + 1;
    least = Math.min(least, now);
  }
  return least;
}

/** Uses the inspector, which Node opens on SIGUSR1, so the server needs no special flag. */
async function collectGarbage(server: RunningServer): Promise<void> {
  const socket = new WebSocket(await inspectorOf(server));
  const { promise: done, resolve, reject } = Promise.withResolvers<void>();
  socket.addEventListener('open', () => socket.send('{"id":1,"method":"HeapProfiler.collectGarbage"}'));
  socket.addEventListener('message', () => resolve());
  socket.addEventListener('error', () => reject(new Error('the inspector of the server does not answer')));
  await done.finally(() => socket.close());
}

async function inspectorOf(server: RunningServer): Promise<string> {
  const address = () => /Debugger listening on (ws:\S+)/.exec(server.output())?.[1];
  if (address() === undefined) server.process.kill('SIGUSR1');
  for (const deadline = performance.now() + LONGEST_MS; performance.now() < deadline; await sleep(50)) {
    const found = address();
    if (found !== undefined) return found;
  }
  throw new Error('the inspector of the server does not open');
}
