import { once } from 'node:events';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterAll, describe, expect, it } from 'vitest';
import { KEY, startHttpBed } from './bed.ts';

const FIXTURES = join(import.meta.dirname, '../../fixtures/tls');
const directory = await mkdtemp(join(tmpdir(), 'baobab-tls-'));
for (const end of ['crt', 'key']) await copyFile(join(FIXTURES, `first.${end}`), join(directory, `tls.${end}`));
const ca = await readFile(join(FIXTURES, 'first.crt'));
const bed = await startHttpBed({
  tls: { cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') },
  http: { headers_timeout_ms: 1_000, write_timeout_ms: 500 },
});
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

async function get(path: string, agent: Agent): Promise<number | undefined> {
  const sent = request(new URL(path, bed.address), { agent, ca, headers: { authorization: `Bearer ${KEY}` } });
  sent.end();
  const [response] = await once(sent, 'response');
  response.resume();
  await once(response, 'end');
  return response.statusCode;
}

describe('a server with a certificate', () => {
  it('serves HTTPS on kept connections', async () => {
    expect(bed.address).toMatch(/^https:/);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    expect([await get('/v1/models', agent), await get('/healthz', agent)]).toEqual([200, 200]);
    agent.destroy();
  });

  it('closes connections that never finish their handshake, or never send a request', async () => {
    const silent = await bed.open();
    const shaken = connect({ host: '127.0.0.1', port: Number(new URL(bed.address).port), ca });
    shaken.on('error', () => {});
    await once(shaken, 'secureConnect');
    await Promise.all([once(silent.resume(), 'close'), once(shaken.resume(), 'close')]);
  });
});
