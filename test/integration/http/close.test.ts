import { once } from 'node:events';
import { expect, it } from 'vitest';
import { readAnswer, startHttpBed } from './bed.ts';

it('shutting down does not wait for connections on which nothing was ever sent', async () => {
  const bed = await startHttpBed();
  const [silent, used] = [await bed.open(), await bed.open()];
  used.write('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n');
  expect((await readAnswer(used)).status).toBe(200);
  const closed = once(silent, 'close');
  const startedAt = performance.now();
  await bed[Symbol.asyncDispose]();
  await closed;
  // Running requests would get 30 s.
  expect(performance.now() - startedAt).toBeLessThan(10_000);
});
