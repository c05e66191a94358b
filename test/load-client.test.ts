import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { FIRST_WORD } from '../bench/replicas/chat.ts';
import type { StreamsJob } from '../bench/replicas/load.ts';

const PROGRAM = new URL('../bench/replicas/load-client.ts', import.meta.url);

it.each([
  ['resets', 'health probe', '/healthz', 'ECONNRESET'],
  ['resets', 'stream', '/stream', 'ECONNRESET'],
  ['closes', 'health probe', '/healthz', 'the server closed a health probe without an answer'],
  ['closes', 'stream', '/stream', 'the server closed a stream before its end'],
])('reports that the server %s the connection of a %s', async (how, _what, path, problem) => {
  await using server = createServer((request, response) => {
    if (request.url === path) {
      if (how === 'resets') request.socket.resetAndDestroy();
      else request.socket.end();
    } else if (request.url === '/healthz') response.end('ready');
    else response.end(`data: ${FIRST_WORD}\n\ndata: [DONE]\n\n`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = fork(PROGRAM, { serialization: 'advanced', stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  try {
    const job: StreamsJob = {
      kind: 'streams',
      url: `${address}/stream`,
      healthUrl: `${address}/healthz`,
      headers: {},
      body: '{}',
      count: 8,
      overMs: 200,
    };
    client.send(job);
    const ended = once(client, 'exit').then(([code]) => [{ exitCode: code }]);
    const [answer] = await Promise.race([once(client, 'message'), ended]);
    expect(answer).toEqual({ problem: expect.stringContaining(problem) });
  } finally {
    client.kill();
  }
});
