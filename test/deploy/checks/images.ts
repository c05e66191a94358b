import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { type Cpu, DEBIAN_ARCHITECTURES } from '../../../scripts/release/debian.ts';
import { checkImage, type ImageTarget, writeImages } from '../../../scripts/release/image.ts';
import { startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { type Check, onlyOnDemand, Skipped } from '../check.ts';
import { type Container, healthy, startContainer } from '../container.ts';
import { installed } from '../tools.ts';

const ROOT = join(import.meta.dirname, '../../..');
const TLS = join(import.meta.dirname, '../../fixtures/tls');
const KEY = 'first-key-of-the-image-test';
const CHAT_MODEL = 'qwen/qwen2.5-0.5b-instruct';
const HERE = process.arch as Cpu;
const ELSEWHERE: Cpu = HERE === 'x64' ? 'arm64' : 'x64';
const START_MS = 120_000;
/** An emulated processor is some twenty times slower. */
const EMULATED_START_MS = 600_000;

/** Makes one image within its bounds, has it used, and returns its sizes. */
async function withImage(target: ImageTarget, cpu: Cpu, use: (archive: string) => Promise<void>): Promise<string> {
  for (const program of ['dpkg-deb', 'runc']) installed(program, program === 'runc' ? program : 'dpkg');
  const out = mkdtempSync(join(tmpdir(), 'baobab-image-'));
  try {
    const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim();
    const [image] = await writeImages([target], { cpus: [cpu], out, commit, createdAt: new Date(0).toISOString() });
    if (image === undefined) throw new Error('no image was written');
    const sizes = checkImage(image);
    await use(join(out, image.file));
    return sizes;
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/** Trusts the certificate of the fixtures, which names no host. */
async function post(url: string, body: object): Promise<unknown> {
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  if (url.startsWith('http:')) {
    return (await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })).json();
  }
  const ca = readFileSync(join(TLS, 'first.crt'));
  const call = request(url, { method: 'POST', headers, ca, checkServerIdentity: () => undefined });
  call.end(JSON.stringify(body));
  const [response] = await once(call, 'response');
  return json(response);
}

/** What a container may do. */
async function checkConfined({ exec }: Container): Promise<void> {
  assert.equal((await exec('/bin/busybox', 'id', '-u')).stdout, '10001\n');
  const write = await exec('/bin/sh', '-c', 'echo changed > /opt/baobab/changed');
  assert.match(write.stderr, /Read-only file system/);
  const status = await exec('/bin/busybox', 'grep', 'CapEff', '/proc/self/status');
  assert.match(status.stdout, /CapEff:\t0{16}/);
}

async function serveUpstream(archive: string, limitMs: number): Promise<void> {
  await using upstream = await startFakeUpstream('vllm').then((fake) => ({
    url: fake.url,
    [Symbol.asyncDispose]: () => fake.close(),
  }));
  const port = await freePort();
  const env = {
    BAOBAB_FIRST_KEY: KEY,
    BAOBAB_PORT: `${port}`,
    BAOBAB_TLS_CERT: '/var/lib/baobab/server.crt',
    BAOBAB_TLS_KEY: '/var/lib/baobab/server.key',
    BAOBAB_UPSTREAMS: JSON.stringify([{ model: CHAT_MODEL, url: upstream.url, kind: 'vllm' }]),
  };
  const files = Object.fromEntries(
    ['crt', 'key'].map((kind) => [`server.${kind}`, readFileSync(join(TLS, `first.${kind}`), 'utf8')]),
  );
  await using container = await startContainer(archive, { env, files });
  await healthy(container, limitMs);
  await checkConfined(container);
  const chat = await post(`https://127.0.0.1:${port}/v1/chat/completions`, {
    model: CHAT_MODEL,
    messages: [{ role: 'user', content: 'Hello?' }],
  });
  assert.match(JSON.stringify(chat), /Hello from the other side/);
  assert.equal(await container.stop(), 0, container.output());
}

const QEMU_CPU = { x64: 'x86_64', arm64: 'aarch64' };

/** Has the kernel run programs for another processor with QEMU, until it is disposed. */
function emulate(cpu: Cpu): Disposable {
  const name = `qemu-${QEMU_CPU[cpu]}`;
  installed(`${name}-static`, 'qemu-user-static');
  const folder = '/proc/sys/fs/binfmt_misc';
  const own = `baobab-test-${process.pid}`;
  try {
    const line = readFileSync(`/usr/lib/binfmt.d/${name}.conf`, 'utf8').trim().split('\n').at(-1) ?? '';
    writeFileSync(`${folder}/register`, line.replace(`:${name}:`, `:${own}:`));
  } catch (error) {
    throw new Skipped(`the kernel cannot be told to use ${name}-static: ${(error as Error).message}`);
  }
  return { [Symbol.dispose]: () => writeFileSync(`${folder}/${own}`, '-1') };
}

export const checks: readonly Check[] = [
  {
    name: 'the image of a gateway runs as an ordinary user on a read-only root, and answers over TLS what an upstream says',
    run: () => withImage('gateway', HERE, (archive) => serveUpstream(archive, START_MS)),
  },
  {
    name: 'the image with engines answers with a first vector and a first chat',
    run() {
      onlyOnDemand();
      return withImage('full', HERE, async (archive) => {
        const port = await freePort();
        const env = { BAOBAB_FIRST_KEY: KEY, BAOBAB_PORT: `${port}` };
        await using container = await startContainer(archive, { env });
        await healthy(container, START_MS);
        await checkConfined(container);
        const ask = (path: string, body: object) => post(`http://127.0.0.1:${port}/v1/${path}`, body);
        const embedding = await ask('embeddings', { model: 'baobab/embed-multilingual', input: 'Habari ya dunia' });
        const { data } = embedding as { data?: { embedding: number[] }[] };
        assert.equal(data?.[0]?.embedding.length, 384, JSON.stringify(embedding) + container.output());
        const messages = [{ role: 'user', content: 'Translate to Swahili: Good morning.' }];
        const chat = await ask('chat/completions', { model: 'baobab/chat-mini', messages, max_tokens: 8 });
        assert.match(JSON.stringify(chat), /"completion_tokens":\d/);
        assert.equal(await container.stop(), 0, container.output());
      });
    },
  },
  {
    name: `the image of a gateway for ${DEBIAN_ARCHITECTURES[ELSEWHERE]} runs under QEMU`,
    async run() {
      onlyOnDemand();
      using _ = emulate(ELSEWHERE);
      return await withImage('gateway', ELSEWHERE, (archive) => serveUpstream(archive, EMULATED_START_MS));
    },
  },
];
