import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from '../load/caller.ts';

const ATTEMPTS = 60;
const PAUSE_MS = 1_000;

/**
 * Reads after all faults are over. On a slow machine the load balancer may still take a replica for lost, so 5xx are tried again. What
 * is broken stays broken: the last answer counts.
 */
export async function patientGet(address: string, { secret }: Account, path: string): Promise<Response> {
  const get = () => fetch(`${address}${path}`, { headers: { authorization: `Bearer ${secret}` } });
  for (let attempt = 1; attempt < ATTEMPTS; attempt += 1) {
    const answer = await get().catch(() => undefined);
    if (answer !== undefined && answer.status < 500) return answer;
    await answer?.body?.cancel();
    await sleep(PAUSE_MS);
  }
  return get();
}
