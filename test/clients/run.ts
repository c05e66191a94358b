/**
 * Runs real agents against a real server with a scripted strong model: `npm run test:clients [-- name…]`. They are installed into a
 * temporary folder, or into BAOBAB_CLIENTS_DIR, which is kept. What cannot be installed is left out with the reason.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startServer } from '../acceptance/start-server.ts';
import { type Program, programs } from './programs.ts';
import { startStrongModel } from './strong-model.ts';

const execute = promisify(execFile);
const MODEL = 'qwen/qwen2.5-0.5b-instruct';
const NPM_PACKAGES = ['@openai/codex', '@anthropic-ai/claude-code', '@openai/agents', 'compatcanary', 'zod'];
const say = (text: string): void => void process.stdout.write(`${text}\n`);
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Undefined, or why it cannot be had. */
async function attempt(what: string, work: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    return `${what} failed: ${messageOf(error).slice(0, 500)}`;
  }
}

async function install(directory: string): Promise<{ node?: string | undefined; python?: string | undefined }> {
  const options = { cwd: directory, maxBuffer: 2 ** 26 };
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'package.json'), '{"private":true,"type":"module"}');
  const venv = join(directory, 'venv');
  return {
    node: await attempt('npm install', async () => {
      const missing = NPM_PACKAGES.filter((name) => !existsSync(join(directory, 'node_modules', name)));
      if (missing.length > 0) await execute('npm', ['install', '--no-audit', '--no-fund', ...missing], options);
    }),
    python: await attempt('pip install', async () => {
      if (existsSync(join(venv, 'bin/python'))) return;
      await execute('python3', ['-m', 'venv', venv], options);
      await execute(join(venv, 'bin/pip'), ['install', '-q', 'openai-agents'], options);
    }),
  };
}

const kept = process.env.BAOBAB_CLIENTS_DIR;
const directory = kept ?? (await mkdtemp(join(tmpdir(), 'baobab-clients-')));
const wanted = process.argv.slice(2).map((name) => name.toLowerCase());
const isWanted = ({ name }: Program) => wanted.length === 0 || wanted.some((part) => name.toLowerCase().includes(part));
const work = await mkdtemp(join(tmpdir(), 'baobab-clients-work-'));
let failed = 0;
try {
  const missing = await install(directory);
  await using model = await startStrongModel();
  await using server = await startServer({
    env: { BAOBAB_UPSTREAMS: JSON.stringify([{ model: MODEL, url: model.url, kind: 'vllm' }]) },
  });
  for (const [index, program] of programs.filter(isWanted).entries()) {
    const reason = program.python ? missing.python : missing.node;
    if (reason !== undefined) {
      say(`skipped  ${program.name}: ${reason}`);
      continue;
    }
    const own = join(work, String(index));
    await mkdir(own);
    const { address, apiKey } = server;
    try {
      const said = await program.run({ installation: directory, directory: own, address, apiKey, model: MODEL });
      say(`passed   ${program.name}: ${said}`);
    } catch (error) {
      failed += 1;
      say(`FAILED   ${program.name}: ${messageOf(error)}`);
    }
  }
} finally {
  await rm(work, { recursive: true, force: true });
  if (kept === undefined) await rm(directory, { recursive: true, force: true });
}
process.exitCode = failed === 0 ? 0 : 1;
