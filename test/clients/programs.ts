import { execFile } from 'node:child_process';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { TASK } from './strong-model.ts';

const execute = promisify(execFile);
const TIMEOUT_MS = 300_000;

export interface ClientContext {
  /** Where npm and pip have installed the programs. */
  installation: string;
  /** An empty folder. */
  directory: string;
  /** Base address without `/v1`. */
  address: string;
  apiKey: string;
  model: string;
}

export interface Program {
  name: string;
  /** A Python program, which needs the virtual environment. */
  python?: boolean;
  /** Throws when the program does not work. Returns what it printed last. */
  run(context: ClientContext): Promise<string>;
}

async function run(file: string, args: string[], cwd: string, env: Record<string, string>): Promise<string> {
  const child = execute(file, args, { cwd, env: { ...process.env, ...env }, timeout: TIMEOUT_MS, maxBuffer: 2 ** 26 });
  child.child.stdin?.end();
  try {
    const { stdout } = await child;
    return stdout.trim().split('\n').at(-1) ?? '';
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${file} failed\n${stdout.slice(-2000)}\n${stderr.slice(-2000)}`);
  }
}

/** A repository with a file to edit, and a check that the program has edited it. */
async function inRepository(
  { directory }: ClientContext,
  work: (repository: string) => Promise<string>,
): Promise<string> {
  const repository = join(directory, 'repository');
  await mkdir(repository);
  await execute('git', ['init', '-q'], { cwd: repository });
  const file = join(repository, TASK.file);
  await writeFile(file, TASK.before);
  const said = await work(repository);
  const content = await readFile(file, 'utf8');
  if (content !== TASK.after) throw new Error(`${TASK.file} is ${JSON.stringify(content)}; the program said: ${said}`);
  return said;
}

/** Runs a program of this folder in the installation, so that it finds its packages. */
async function runHere(context: ClientContext, program: string, file: string): Promise<string> {
  const copy = join(context.installation, file);
  await copyFile(join(import.meta.dirname, file), copy);
  const { address, apiKey, model, directory } = context;
  return run(program, [copy], directory, { OPENAI_BASE_URL: `${address}/v1`, OPENAI_API_KEY: apiKey, MODEL: model });
}

const bin = ({ installation }: ClientContext, name: string) => join(installation, 'node_modules/.bin', name);

export const programs: readonly Program[] = [
  {
    name: 'Codex (@openai/codex)',
    run: (context) =>
      inRepository(context, async (repository) => {
        const home = join(context.directory, 'codex');
        await mkdir(home);
        const provider = ['name = "Baobab"', `base_url = "${context.address}/v1"`, 'env_key = "BAOBAB_API_KEY"'];
        const head = [`model = "${context.model}"`, 'model_provider = "baobab"', '[model_providers.baobab]'];
        await writeFile(join(home, 'config.toml'), [...head, ...provider].join('\n'));
        const env = { CODEX_HOME: home, HOME: home, BAOBAB_API_KEY: context.apiKey };
        const args = ['exec', '--dangerously-bypass-approvals-and-sandbox', TASK.prompt];
        return run(bin(context, 'codex'), args, repository, env);
      }),
  },
  {
    name: 'Claude Code (@anthropic-ai/claude-code)',
    run: (context) =>
      inRepository(context, async (repository) => {
        const home = join(context.directory, 'claude');
        await mkdir(home);
        const env = {
          HOME: home,
          ANTHROPIC_BASE_URL: context.address,
          ANTHROPIC_API_KEY: context.apiKey,
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        };
        const args = ['-p', TASK.prompt, '--model', context.model, '--allowedTools', 'Bash'];
        return run(bin(context, 'claude'), args, repository, env);
      }),
  },
  { name: 'OpenAI Agents SDK (JavaScript)', run: (context) => runHere(context, process.execPath, 'agents-sdk.mjs') },
  {
    name: 'OpenAI Agents SDK (Python)',
    python: true,
    run: (context) => runHere(context, join(context.installation, 'venv/bin/python'), 'agents_sdk.py'),
  },
  {
    name: 'compatcanary, profile modern',
    run: (context) => {
      const { address, apiKey, model, directory } = context;
      const args = ['--base-url', `${address}/v1`, '--model', model, '--profile', 'modern', '--api-key', apiKey];
      return run(bin(context, 'compatcanary'), args, directory, { OPENAI_API_KEY: apiKey });
    },
  },
];
