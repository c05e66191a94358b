/** Measures how long a request with the largest accepted body blocks the event loop. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startServer } from '../../test/acceptance/start-server.ts';
import { median } from '../measure.ts';

const WORDS = 'river market morning teacher harvest bridge window garden winter music ';
const BODIES = {
  '32 MB of texts': () => Array.from({ length: 2_000 }, (_, index) => `${index} ${WORDS.repeat(220)}`),
  '32 MB of token ids': () =>
    Array.from({ length: 2_048 }, () => Array.from({ length: 2_550 }, (_, id) => 10_000 + id)),
  'one text of 32 MB': () => WORDS.repeat(440_000),
};

/** Medians over the rounds, in milliseconds. */
export async function longestBlocks(rounds: number): Promise<Map<string, number>> {
  const preload = join(import.meta.dirname, 'loop-delay.ts');
  await using server = await startServer({ env: { NODE_OPTIONS: `--import ${preload}`, BAOBAB_LOG_LEVEL: 'error' } });
  const blocks = () => [...server.output().matchAll(/longest block ([\d.]+) ms/g)].map(([, ms]) => Number(ms));
  const longest = async () => {
    const { length } = blocks();
    server.process.kill('SIGUSR2');
    while (blocks().length === length) await sleep(5);
    return blocks().at(-1) ?? Number.NaN;
  };
  const found = new Map(Object.keys(BODIES).map((name) => [name, [] as number[]]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, input] of Object.entries(BODIES)) {
      // The model is unknown, so only reading and checking the body is measured.
      const body = Buffer.from(JSON.stringify({ model: 'no/such', input: input() }));
      await longest();
      const answer = await fetch(`${server.address}/v1/embeddings`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
        body,
      });
      await answer.arrayBuffer();
      if (answer.status !== 404) throw new Error(`reading ${name} was answered with ${answer.status}`);
      const blockedMs = await longest();
      // The first round runs code that is not compiled yet.
      if (round > 0) found.get(name)?.push(blockedMs);
    }
  }
  return new Map([...found].map(([name, blockedMs]) => [name, median(blockedMs)]));
}
