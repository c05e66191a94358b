/**
 * Runs agents, client libraries and applications against a real server with a scripted strong model: `npm run test:clients [-- name…]`.
 * They are installed into a temporary folder, or into BAOBAB_CLIENTS_DIR, which is kept. What cannot be installed is left out with the reason.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer } from '../acceptance/start-server.ts';
import type { Client } from './client.ts';
import { clients } from './clients.ts';
import { startStrongModel } from './strong-model.ts';

const MODEL = 'qwen/qwen2.5-0.5b-instruct';
const SMALL_MODEL = 'qwen/qwen2.5-1.5b-instruct';
const SMALL_CONTEXT = 32_000;
const say = (text: string): void => void process.stdout.write(`${text}\n`);
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

async function openaiKey(address: string, apiKey: string): Promise<string> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ name: 'typed clients', dialect: 'openai' });
  const answer = await fetch(`${address}/v1/keys`, { method: 'POST', headers, body });
  if (!answer.ok) throw new Error(`no key was created: ${await answer.text()}`);
  return ((await answer.json()) as { secret: string }).secret;
}

const kept = process.env.BAOBAB_CLIENTS_DIR;
const installation = kept ?? (await mkdtemp(join(tmpdir(), 'baobab-clients-')));
const wanted = process.argv.slice(2).map((name) => name.toLowerCase());
const isWanted = ({ name }: Client) => wanted.length === 0 || wanted.some((part) => name.toLowerCase().includes(part));
const work = await mkdtemp(join(tmpdir(), 'baobab-clients-work-'));
let failed = 0;
try {
  await mkdir(installation, { recursive: true });
  await using model = await startStrongModel();
  await using small = await startStrongModel({ contextLength: SMALL_CONTEXT });
  const upstreams = [
    { model: MODEL, url: model.url, kind: 'vllm' },
    { model: SMALL_MODEL, url: small.url, kind: 'vllm' },
  ];
  await using server = await startServer({ env: { BAOBAB_UPSTREAMS: JSON.stringify(upstreams) } });
  const { address, apiKey } = server;
  const shared = {
    installation,
    address,
    apiKey,
    openaiKey: await openaiKey(address, apiKey),
    model: MODEL,
    embeddingModel: 'baobab/embed-multilingual',
  };
  for (const [index, { name, install, asserts, run }] of clients.filter(isWanted).entries()) {
    try {
      await install(installation);
    } catch (error) {
      say(`skipped  ${name}: not installed: ${messageOf(error)}`);
      continue;
    }
    const directory = join(work, String(index));
    await mkdir(directory);
    const startedAt = Date.now();
    const before = small.refusals();
    const smallModel = { name: SMALL_MODEL, refusals: () => small.refusals() - before };
    try {
      await run({ ...shared, directory, smallModel });
      say(`passed   ${name}: ${asserts} (${Math.round((Date.now() - startedAt) / 1000)} s)`);
    } catch (error) {
      failed += 1;
      say(`FAILED   ${name}: ${messageOf(error)}`);
    }
  }
} finally {
  await rm(work, { recursive: true, force: true });
  if (kept === undefined) await rm(installation, { recursive: true, force: true });
}
process.exitCode = failed === 0 ? 0 : 1;
