import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { PROXIES, type ProxyKind } from '../../chaos/proxies.ts';
import { CHAT, KEY, type ServersBehindProxy, startBehind } from '../../chaos/rolling-restart.ts';
import { type Check, Skipped } from '../check.ts';

const TLS = join(import.meta.dirname, '../../fixtures/tls');
const CERTIFICATE = { cert: join(TLS, 'first.crt'), key: join(TLS, 'first.key') };
const UPLOAD_BYTES = 8 * 1024 * 1024;
/** While one of two servers is replaced. */
const REQUESTS = 200;
const authorization = `Bearer ${KEY}`;

async function signsIn({ address }: ServersBehindProxy): Promise<void> {
  // What a client says of its connection does not count, on neither way.
  const headers = { authorization, 'x-forwarded-proto': 'http', 'x-forwarded-for': '203.0.113.7' };
  const answer = await fetch(`${address}/v1/sessions`, { method: 'POST', headers });
  assert.equal(answer.status, 200, await answer.text());
  assert.match(answer.headers.get('set-cookie') ?? '', /^__Host-baobab_session=.*; Secure$/);
}

/** The upstream is silent after its second word: a proxy that waits for more would show nothing. */
async function streams({ address, upstream }: ServersBehindProxy): Promise<void> {
  upstream.behaviour.stallAfterChunks = 3;
  const stop = new AbortController();
  try {
    const answer = await fetch(`${address}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ model: CHAT, messages: [{ role: 'user', content: 'hi' }], stream: true }),
      signal: stop.signal,
    });
    assert.equal(answer.status, 200);
    let seen = '';
    for await (const chunk of answer.body ?? []) {
      seen += Buffer.from(chunk).toString();
      if (seen.includes(' and')) break;
    }
    assert.match(seen, /"yes"/);
    assert.ok(!seen.includes('[DONE]'));
  } finally {
    stop.abort();
    delete upstream.behaviour.stallAfterChunks;
  }
}

/** To one of two servers that share nothing: what it says of the file is enough. */
async function uploads({ address }: ServersBehindProxy): Promise<void> {
  const body = new FormData();
  body.set('purpose', 'user_data');
  body.set('file', new Blob([randomBytes(UPLOAD_BYTES)]), 'eight.bin');
  const answer = await fetch(`${address}/v1/files`, { method: 'POST', headers: { authorization }, body });
  const file = (await answer.json()) as { bytes?: number };
  assert.equal(file.bytes, UPLOAD_BYTES, JSON.stringify(file));
}

async function serves(kind: ProxyKind): Promise<string> {
  if (kind.missing !== undefined) throw new Skipped(kind.missing);
  setDefaultCACertificates([...getCACertificates(), readFileSync(CERTIFICATE.cert, 'utf8')]);
  await using servers = await startBehind(kind, CERTIFICATE);
  await signsIn(servers);
  await streams(servers);
  await uploads(servers);
  const { sent, failures } = await servers.restart({ requests: REQUESTS, restarts: 1, lanes: 2 });
  assert.deepEqual(failures, []);
  return `${sent} requests while a server was replaced, none failed`;
}

export const checks: readonly Check[] = PROXIES.filter(({ name }) => name !== 'nginx-alone').map((kind) => ({
  name: `behind ${kind.name} with TLS, cookies are Secure, streams flow, uploads arrive, and a server is replaced`,
  run: () => serves(kind),
}));
