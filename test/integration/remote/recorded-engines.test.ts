import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { comparable, type Recording, readRecordings, requestKey } from '../../engines/fixtures.ts';
import { startTestService, type TestService } from '../../engines/service.ts';

/** Answers as the engine did when it was recorded. Repeated requests get the recorded answers in turn. */
async function startReplay(recordings: readonly Recording[]) {
  const answers = new Map<string, Recording['exchanges']>();
  for (const exchange of recordings.flatMap(({ exchanges }) => exchanges)) {
    const key = requestKey(exchange.path, exchange.body);
    answers.set(key, [...(answers.get(key) ?? []), exchange]);
  }
  const unknown: string[] = [];
  const server = createServer(async (message, response) => {
    if (message.method === 'GET') {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      return;
    }
    const parts: Buffer[] = [];
    for await (const part of message) parts.push(part);
    const text = Buffer.concat(parts).toString('utf8');
    const key = requestKey(message.url ?? '', JSON.parse(text));
    const queue = answers.get(key) ?? [];
    const exchange = queue.length > 1 ? queue.shift() : queue[0];
    if (exchange === undefined) unknown.push(key);
    response.writeHead(exchange?.status ?? 400, exchange?.headers).end(exchange?.answer ?? '{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, unknown, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
}

describe.each([...readRecordings()])('answers recorded from %s', (_name, recordings) => {
  let replay: Awaited<ReturnType<typeof startReplay>>;
  let service: TestService;
  beforeAll(async () => {
    replay = await startReplay(recordings);
    const [first] = recordings;
    if (first === undefined) throw new Error('no recordings');
    service = await startTestService({ ...first.model, url: replay.url });
  });
  afterAll(async () => {
    await service[Symbol.asyncDispose]();
    replay.server.closeAllConnections();
    replay.server.close();
  });

  // A request that is not in the recording means that Baobab sends something else now: run `npm run test:engines -- --record`.
  it.each(recordings.map((recording) => [recording.feature, recording] as const))('%s', async (_feature, recording) => {
    for (const { path, body, status, answer } of recording.requests) {
      const now = await service.post(path, body);
      expect(replay.unknown).toEqual([]);
      expect(now.status).toBe(status);
      expect(comparable(now.text)).toEqual(comparable(answer));
    }
  });
});
