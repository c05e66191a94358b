import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Client, type ClientContext, run } from './client.ts';
import { npm } from './install.ts';
import { LONG_TASK, TASK } from './strong-model.ts';

const bin = ({ installation }: ClientContext, name: string) => join(installation, 'node_modules/.bin', name);

/** A folder in the client's own, such as a home that has no settings of the user. */
async function folder({ directory }: ClientContext, name: string): Promise<string> {
  const path = join(directory, name);
  await mkdir(path);
  return path;
}

/** Lets an agent work in a repository with a file to edit, and checks that it has edited it. */
async function editInRepository(context: ClientContext, work: (repository: string) => Promise<string>): Promise<void> {
  const repository = await folder(context, 'repository');
  await run('git', ['init', '-q'], repository);
  const file = join(repository, TASK.file);
  await writeFile(file, TASK.before);
  const printed = await work(repository);
  assert.equal(await readFile(file, 'utf8'), TASK.after, printed.slice(-2000));
}

export const agents: readonly Client[] = [
  {
    name: 'Codex',
    install: npm('@openai/codex'),
    asserts: 'edits a file',
    run: (context) =>
      editInRepository(context, async (repository) => {
        const home = await folder(context, 'codex');
        const provider = ['name = "Baobab"', `base_url = "${context.address}/v1"`, 'env_key = "BAOBAB_API_KEY"'];
        const head = [`model = "${context.model}"`, 'model_provider = "baobab"', '[model_providers.baobab]'];
        await writeFile(join(home, 'config.toml'), [...head, ...provider].join('\n'));
        const env = { CODEX_HOME: home, HOME: home, BAOBAB_API_KEY: context.apiKey };
        const args = ['exec', '--dangerously-bypass-approvals-and-sandbox', TASK.prompt];
        return run(bin(context, 'codex'), args, repository, env);
      }),
  },
  {
    name: 'Claude Code',
    install: npm('@anthropic-ai/claude-code'),
    asserts: 'edits a file',
    run: (context) =>
      editInRepository(context, async (repository) => {
        const env = {
          HOME: await folder(context, 'claude'),
          ANTHROPIC_BASE_URL: context.address,
          ANTHROPIC_API_KEY: context.apiKey,
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        };
        const args = ['-p', TASK.prompt, '--model', context.model, '--allowedTools', 'Bash'];
        return run(bin(context, 'claude'), args, repository, env);
      }),
  },
  {
    name: 'opencode, overflow',
    install: npm('opencode-ai'),
    asserts: 'reads until the context overflows, compacts and edits a file',
    async run(context) {
      const { name, refusals } = context.smallModel;
      // A limit that is set too high: the agent meets the error instead of compacting before it.
      const models = { [name]: { name, limit: { context: 200_000, output: 4_000 } } };
      const options = { baseURL: `${context.address}/v1`, apiKey: context.apiKey };
      const provider = { baobab: { npm: '@ai-sdk/openai-compatible', options, models } };
      await editInRepository(context, async (repository) => {
        const settings = { provider, permission: 'allow', share: 'disabled', autoupdate: false };
        await writeFile(join(repository, 'opencode.json'), JSON.stringify(settings));
        await writeFile(join(repository, LONG_TASK.file), LONG_TASK.content);
        const env = { HOME: await folder(context, 'opencode'), OPENCODE_DISABLE_MODELS_FETCH: 'true' };
        const args = ['run', '-m', `baobab/${name}`, LONG_TASK.prompt];
        // It fails after any error, even one that it has recovered from.
        return run(bin(context, 'opencode'), args, repository, env).catch(({ message }: Error) => message);
      });
      assert.equal(refusals(), 1);
    },
  },
];
