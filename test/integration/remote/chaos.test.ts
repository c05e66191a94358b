import { afterEach, expect, it } from 'vitest';
import { ApiError } from '../../../packages/core/src/errors/api-error.ts';
import { answerJson, type FakeHandler, hangUp, silence } from '../../fixtures/fake-upstream.ts';
import { type RemoteBench, remoteBench } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
afterEach(() => bench.close());

/** The same sequence on every run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const cutShort: FakeHandler = (_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write('data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n', () => response.destroy());
};
const FAILURES: readonly FakeHandler[] = [
  hangUp,
  silence,
  cutShort,
  answerJson(500, {}),
  answerJson(429, {}),
  answerJson(400, { error: { message: 'no', code: 400 } }),
];

it('random failures and cancellations leave no slot taken, no connection open and no request unanswered', async () => {
  const random = numbers(7);
  // Long enough that a slow machine is not taken for a silent upstream.
  const settings = { maxConcurrency: 8, firstByteTimeoutMs: 1_000 };
  bench = await remoteBench({
    upstreams: [{ settings }, { settings }, { settings }],
    model: { queue: { length: 500, timeoutMs: 60_000 } },
  });
  for (const upstream of bench.upstreams) {
    for (let i = 0; i < 60; i++) {
      const failure = FAILURES[Math.floor(random() * FAILURES.length * 2)];
      // Undefined for half of them: these are answered as usual.
      upstream.script.push(
        failure ?? answerJson(200, { choices: [{ message: { content: 'ok' }, finish_reason: 'stop' }] }),
      );
    }
  }
  const outcomes = await Promise.all(
    Array.from({ length: 400 }, async (_, i) => {
      const controller = new AbortController();
      const patience = random() < 0.3 ? Math.floor(random() * 4) : Infinity;
      const generation = bench.chat(
        { prompt: { messages: [{ role: 'user', content: 'Hi' }] } },
        { signal: controller.signal, keyId: `key_${i % 5}`, priority: i % 3 === 0 ? 'batch' : 'interactive' },
      );
      if (patience === 0) controller.abort();
      let seen = 0;
      try {
        for await (const event of generation) {
          if (event.type === 'end') return 'whole';
          seen += 1;
          if (seen === patience) controller.abort();
        }
        return 'ended without an end';
      } catch (error) {
        return error instanceof ApiError ? error.code : String(error);
      } finally {
        // Failing addresses get another chance at once, so that the breakers do not end the test early.
        bench.clock.advance(30_000);
      }
    }),
  );
  const kinds = new Set(outcomes);
  expect(kinds).toContain('whole');
  expect(kinds).toContain('client_cancelled');
  expect(kinds).toContain('model_unavailable');
  const known = [
    'whole',
    'client_cancelled',
    'model_unavailable',
    'invalid_parameter',
    'capacity_exceeded',
    'upstream_timeout',
  ];
  expect([...kinds].filter((kind) => !known.includes(kind))).toEqual([]);
  expect(bench.model.health().map((each) => each.inFlight)).toEqual([0, 0, 0]);
  await bench.model[Symbol.asyncDispose]();
  await Promise.all(bench.upstreams.map((upstream) => upstream.until(() => upstream.connections() === 0)));
});
