import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { MODELS } from '../cluster/cluster.ts';
import type { Random } from '../random.ts';
import type { Account, Caller } from './caller.ts';
import { formOf } from './file-lanes.ts';
import { sendUntilAnswered } from './repeated-keys.ts';

export interface SentBatch {
  id: string;
  /** Its lines are the jobs `<name>:0`, `<name>:1`, … of the engine. */
  name: string;
  lines: number;
}

interface BatchLaneOptions {
  random: Random;
  isOver: () => boolean;
  onCreated?: () => void;
}

/** Creates batches. Files and batches have idempotency keys, so that a retry makes no second one. */
export function batchLane(caller: Caller, { random, isOver, onCreated = () => {} }: BatchLaneOptions) {
  const batches: SentBatch[] = [];
  /** Names of the files, one for each idempotency key. */
  const inputs: string[] = [];

  async function batch(account: Account): Promise<void> {
    const lines = random.between(20, 200);
    const [fileKey, batchKey] = [randomUUID(), randomUUID()];
    const promptOf = (line: number) =>
      `account=${account.name} job=${fileKey}:${line}${line === lines - 1 ? ' last' : ''}`;
    const input = Array.from({ length: lines }, (_, line) =>
      JSON.stringify({
        custom_id: `line-${line}`,
        method: 'POST',
        url: '/v1/embeddings',
        body: { model: MODELS.embedding, input: promptOf(line) },
      }),
    ).join('\n');
    const name = `${fileKey}.jsonl`;
    inputs.push(name);
    const file = await sendUntilAnswered(caller, {
      account,
      isOver,
      sent: () => ({
        kind: 'batch file',
        path: '/v1/files',
        form: formOf(name, Buffer.from(input)),
        headers: { 'idempotency-key': fileKey },
      }),
    });
    if (file === undefined) return;
    const order = {
      input_file_id: file.json<{ id: string }>().id,
      endpoint: '/v1/embeddings',
      completion_window: '24h',
    };
    const created = await sendUntilAnswered(caller, {
      account,
      isOver,
      sent: () => ({ kind: 'batch', path: '/v1/batches', json: order, headers: { 'idempotency-key': batchKey } }),
    });
    if (created !== undefined) {
      batches.push({ id: created.json<{ id: string }>().id, name: fileKey, lines });
      onCreated();
    }
    await sleep(random.between(1_000, 5_000));
  }
  return { batches, inputs, batch };
}
