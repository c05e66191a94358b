import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.ts';
import type { Account, Answer, Caller, Sent } from './caller.ts';
import { chatOf, embeddingOf } from './inference-lanes.ts';

/** All answers that one idempotency key got. */
export interface RepeatedKey {
  key: string;
  bodies: Set<string>;
  answers: number;
}

const PAUSE_MS = 250;

/** Sends it again under the same key until it is answered, as official clients do, or until the deadline. */
export async function sendUntilAnswered(
  caller: Caller,
  { account, sent, isOver }: { account: Account; sent: () => Sent; isOver: () => boolean },
): Promise<Answer | undefined> {
  for (;;) {
    const answer = await caller.send(account, sent());
    if (answer !== undefined || isOver()) return answer;
    await sleep(PAUSE_MS);
  }
}

export function repeatedKeys(caller: Caller, { random, isOver }: { random: Random; isOver: () => boolean }) {
  const keys: RepeatedKey[] = [];

  /** Some of the same key at once, each retried until it has an answer, and one more afterwards. */
  async function repeat(account: Account): Promise<void> {
    const key = randomUUID();
    const record: RepeatedKey = { key, bodies: new Set(), answers: 0 };
    keys.push(record);
    const request = random.next() < 0.5 ? embeddingOf(account, random) : chatOf(account, random, false);
    const sent = () => ({ ...request, kind: 'repeated', headers: { 'idempotency-key': key } });
    const once = async () => {
      const answer = await sendUntilAnswered(caller, { account, sent, isOver });
      if (answer === undefined) return;
      record.bodies.add(answer.bytes.toString());
      record.answers += 1;
    };
    await Promise.all(Array.from({ length: random.between(1, 3) }, once));
    await once();
  }
  return { keys, repeat };
}
