import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exchange } from './exchange.ts';

let server: Server;
let pool: Pool;
beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.url === '/silent') return;
    response.writeHead(request.url === '/refused' ? 400 : 200, { 'x-told': 'yes' });
    // In two pieces and without a length.
    response.write('x'.repeat(50));
    response.end('ö'.repeat(25));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  pool = new Pool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { connections: 1 });
});
afterAll(async () => {
  await pool.destroy();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function ask(path: string, most: { good: number; refused: number } = { good: 100, refused: 100 }) {
  let begun = 0;
  const running = exchange(
    pool,
    { method: 'POST', path, body: '{}' },
    {
      onBegun: () => {
        begun += 1;
      },
      maxBytes: (status) => (status === 200 ? most.good : most.refused),
      tooLong: (bytes) => new Error(`longer than ${bytes}`),
    },
  );
  return { ...running, begun: () => begun };
}

describe('exchange', () => {
  it('gives the whole answer, whatever its status', async () => {
    const { answer, begun } = ask('/refused');
    expect(await answer).toMatchObject({ status: 400, text: 'x'.repeat(50) + 'ö'.repeat(25) });
    expect((await answer).headers['x-told']).toBe('yes');
    expect(begun()).toBe(1);
  });

  it('gives up an answer that is longer than its status may be', async () => {
    await expect(ask('/', { good: 99, refused: 1_000 }).answer).rejects.toThrow('longer than 99');
    await expect(ask('/refused', { good: 1_000, refused: 60 }).answer).rejects.toThrow('longer than 60');
    expect((await ask('/', { good: 100, refused: 0 }).answer).status).toBe(200);
  });

  it('ends at once when it is aborted, also while it waits for a connection', async () => {
    const silent = ask('/silent');
    const waiting = ask('/');
    waiting.abort(new Error('gone'));
    await expect(waiting.answer).rejects.toThrow('gone');
    silent.abort(new Error('enough'));
    await expect(silent.answer).rejects.toThrow('enough');
    expect((await ask('/').answer).status).toBe(200);
  });
});
