import { afterEach, describe, expect, it } from 'vitest';
import type { ChatRequest } from '../../../src/engines/engine.ts';
import { answerJson, type FakeHandler } from '../../fixtures/fake-upstream.ts';
import { collect, type RemoteBench, remoteBench } from '../../fixtures/remote-bench.ts';

const KEY = 'sk-upstream-"credential"';
const OTHER = 'hf-token-of-this-server';
const hello: ChatRequest = { prompt: { messages: [{ role: 'user', content: 'Hi' }] } };

const stream =
  (text: string): FakeHandler =>
  (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text);
  };

describe('an upstream that repeats its credentials', () => {
  let bench: RemoteBench;
  afterEach(() => bench.close());

  it.each<[string, FakeHandler]>([
    ['a refusal', answerJson(400, { error: { message: `bad request with ${KEY} and ${OTHER}`, code: 400 } })],
    ['a refusal of another Baobab', answerJson(422, { error: { message: KEY, code: 'validation_failed' } })],
    ['an error', answerJson(500, { error: { message: `Bearer ${KEY} ${OTHER}` } })],
    ['a wrong key', answerJson(401, { error: { message: `Incorrect API key: ${KEY}` } })],
    ['plain text', (_request, response) => void response.writeHead(400).end(`no ${KEY} ${OTHER}`)],
    ['an error event', stream(`data: ${JSON.stringify({ error: { message: `${KEY} ${OTHER}`, code: 400 } })}\n\n`)],
    ['a chunk that is not JSON', stream(`data: ${KEY} ${OTHER}\n\n`)],
    [
      'a message that is cut',
      answerJson(400, { error: { message: `${'x'.repeat(290)}${KEY}${'x'.repeat(700)}${KEY}`, code: 400 } }),
    ],
  ])('in %s does not get them to clients or into the log', async (_name, handler) => {
    bench = await remoteBench({ upstreams: [{ settings: { apiKey: KEY } }], model: { secrets: [OTHER] } });
    bench.upstreams[0]?.script.push(handler, handler, handler);
    const error: unknown = await collect(bench.chat(hello)).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ name: 'ApiError' });
    const seen = [
      String(error),
      JSON.stringify(error),
      JSON.stringify(bench.log),
      JSON.stringify(bench.model.health()),
    ];
    for (const text of seen) expect(text).not.toMatch(/sk-up|credential|hf-token/);
    expect(bench.upstreams[0]?.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
  });
});
