import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Client, type ClientContext, run } from './client.ts';
import { type Installer, npm, python } from './install.ts';
import { nameOf, prepare } from './recipe.ts';
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

interface Agent {
  /** Its settings in the table of `baobab launch`. */
  id: string;
  install: Installer;
  /** Makes its last command one that works on $TASK without asking anybody. */
  start(command: string): string;
  env?: Record<string, string>;
}

const AGENTS: readonly Agent[] = [
  {
    id: 'codex',
    install: npm('@openai/codex'),
    start: (command) => `${command} exec --dangerously-bypass-approvals-and-sandbox "$TASK"`,
  },
  {
    id: 'claude',
    install: npm('@anthropic-ai/claude-code'),
    start: (command) => `${command} -p "$TASK" --allowedTools Bash`,
    env: { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' },
  },
  {
    id: 'opencode',
    install: npm('opencode-ai'),
    start: (command) => `${command.replace('opencode', 'opencode run')} "$TASK"`,
    env: { OPENCODE_DISABLE_MODELS_FETCH: 'true' },
  },
  { id: 'cline', install: npm('cline'), start: (command) => `${command} "$TASK"` },
  { id: 'continue', install: npm('@continuedev/cli'), start: (command) => `${command} --auto -p "$TASK"` },
  { id: 'qwen', install: npm('@qwen-code/qwen-code'), start: (command) => `${command} --yolo -p "$TASK"` },
  { id: 'pi', install: npm('@mariozechner/pi-coding-agent'), start: (command) => `${command} -p "$TASK"` },
  { id: 'copilot', install: npm('@github/copilot'), start: (command) => `${command} --allow-all-tools -p "$TASK"` },
  {
    id: 'aider',
    install: python('aider', 'aider-chat'),
    start: (command) => `${command} --yes-always --no-check-update --message "$TASK" ${TASK.file}`,
    env: { AIDER_ANALYTICS: 'false' },
  },
];

/** Runs an agent with the settings that `baobab launch --print` prints. */
const withItsSettings = ({ id, install, start, env }: Agent): Client => ({
  name: nameOf(id),
  install,
  asserts: 'edits a file with the settings of launch',
  run: (context) =>
    editInRepository(context, async (directory) => {
      const prepared = await prepare(id, context, { home: await folder(context, 'home'), directory }, start);
      return run('sh', ['-e', '-c', prepared.script], directory, { ...prepared.env, TASK: TASK.prompt, ...env });
    }),
});

export const agents: readonly Client[] = [
  ...AGENTS.map(withItsSettings),
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
