import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { MODELS } from '../cluster/cluster.ts';
import type { Random } from '../random.ts';
import type { Account, Caller } from './caller.ts';
import { sendUntilAnswered } from './repeated-keys.ts';

export interface BackgroundResponse {
  id: string;
  /** Its job at the engine. */
  name: string;
  /** As it was last read. */
  status: string;
  text: string;
}

interface BackgroundLaneOptions {
  random: Random;
  isOver: () => boolean;
  onCreated: () => void;
}

export interface StoredResponse {
  id: string;
  status: string;
  error?: unknown;
  output: { content?: { text?: string }[] }[];
}

export const textOf = ({ output }: StoredResponse): string =>
  output.flatMap(({ content = [] }) => content.map(({ text = '' }) => text)).join('');

const ENDED = ['completed', 'failed', 'cancelled', 'incomplete'];
const POLL_MS = 300;

/** Creates background responses, each under an idempotency key, and reads them until they have ended. */
export function backgroundLane(caller: Caller, { random, isOver, onCreated }: BackgroundLaneOptions) {
  const responses: BackgroundResponse[] = [];

  async function background(account: Account): Promise<void> {
    const name = randomUUID();
    const json = {
      model: MODELS.chat,
      input: `account=${account.name} job=${name}`,
      max_output_tokens: random.between(16, 60),
      background: true,
    };
    const created = await sendUntilAnswered(caller, {
      account,
      isOver,
      sent: () => ({ kind: 'background', path: '/v1/responses', json, headers: { 'idempotency-key': name } }),
    });
    if (created === undefined) return;
    const response = { id: created.json<StoredResponse>().id, name, status: 'queued', text: '' };
    responses.push(response);
    onCreated();
    const read = () => ({ kind: 'background read', method: 'GET', path: `/v1/responses/${response.id}` });
    while (!ENDED.includes(response.status) && !isOver()) {
      await sleep(POLL_MS);
      const answer = await caller.send(account, read());
      if (answer === undefined) continue;
      const stored = answer.json<StoredResponse>();
      response.status = stored.status;
      response.text = textOf(stored);
    }
  }
  return { responses, background };
}
