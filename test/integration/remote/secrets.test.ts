import { afterEach, describe, expect, it } from 'vitest';
import type { ChatRequest } from '../../../packages/core/src/engine/engine.ts';
import { createSecretScrubber } from '../../../packages/core/src/runtime/secret-scrubber.ts';
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
    bench = await remoteBench({
      upstreams: [{ settings: { apiKey: KEY } }],
      model: { scrub: createSecretScrubber([OTHER]) },
    });
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

  const delta = (choice: object, finish: string | null = null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: choice, finish_reason: finish }] })}\n\n`;
  const call = (name: string, text: string) => ({ tool_calls: [{ index: 0, function: { name, arguments: text } }] });
  const stop = `${delta({}, 'stop')}data: [DONE]\n\n`;
  const pieces = [KEY.slice(0, 4), KEY.slice(4, 15), KEY.slice(15)];

  it.each<[string, FakeHandler]>([
    ['whole', answerJson(200, { choices: [{ message: { content: `The key is ${KEY}.` }, finish_reason: 'stop' }] })],
    ['in one chunk', stream(delta({ content: `The key is ${KEY}.` }) + stop)],
    ['in pieces', stream([...pieces, '.'].map((content) => delta({ content })).join('') + stop)],
    ['in pieces of a thought', stream(pieces.map((each) => delta({ reasoning_content: each })).join('') + stop)],
    ['in pieces of a call', stream([...pieces, ' '].map((each) => delta(call('f', each))).join('') + stop)],
    ['in base64', stream(delta({ content: Buffer.from(KEY).toString('base64') }) + stop)],
  ])('in an answer does not get them to clients: %s', async (_name, handler) => {
    bench = await remoteBench({ upstreams: [{ settings: { apiKey: KEY } }] });
    bench.upstreams[0]?.script.push(handler);
    const events = await collect(bench.chat(hello));
    const written = events.map((event) =>
      'text' in event ? event.text : 'argumentsDelta' in event ? event.argumentsDelta : '',
    );
    expect(written.join('')).toContain('[hidden]');
    expect(JSON.stringify(events)).not.toMatch(/sk-up|credential|dential|c2st/);
    expect(events.at(-1)?.type).toBe('end');
  });

  it('passes on an answer that only begins like them', async () => {
    bench = await remoteBench({ upstreams: [{ settings: { apiKey: KEY } }] });
    bench.upstreams[0]?.script.push(
      stream(['sk', '-up', 'per, s'].map((content) => delta({ content })).join('') + stop),
    );
    const events = await collect(bench.chat(hello));
    expect(events.map((event) => ('text' in event ? event.text : '')).join('')).toBe('sk-upper, s');
  });

  it('does not hide a placeholder', async () => {
    bench = await remoteBench({ upstreams: [{ settings: { apiKey: 'ollama' } }] });
    bench.upstreams[0]?.script.push(stream(delta({ content: 'I run in ollama.' }) + stop));
    expect(JSON.stringify(await collect(bench.chat(hello)))).toContain('I run in ollama.');
  });
});
