import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Client, type ClientContext, run } from './client.ts';
import { go, type Installer, java, npm, python, rust } from './install.ts';

const PROGRAMS = join(import.meta.dirname, 'programs');

const environment = ({ address, apiKey, model, embeddingModel }: ClientContext) => ({
  OPENAI_BASE_URL: `${address}/v1`,
  OPENAI_API_KEY: apiKey,
  MODEL: model,
  EMBEDDING_MODEL: embeddingModel,
});

/** Runs a script of `programs` in the installation, so that it finds its packages. */
const script = (interpreter: (installation: string) => string, file: string) => async (context: ClientContext) => {
  const copy = join(context.installation, file);
  await copyFile(join(PROGRAMS, file), copy);
  return run(interpreter(context.installation), [copy], context.directory, environment(context));
};

/** Clients of OpenAI with types of their own. A wrong type in an answer fails them. */
const typed = (name: string, install: Installer, command: (installation: string) => Promise<string[]>): Client => ({
  name,
  install,
  asserts: 'chat, a stream, embeddings, and a batch from upload to results',
  async run(context) {
    const { installation, directory, model, openaiKey } = context;
    const requests = join(directory, 'requests.jsonl');
    const line = (custom_id: string) => {
      const body = { model, messages: [{ role: 'user', content: 'Hello' }] };
      return `${JSON.stringify({ custom_id, method: 'POST', url: '/v1/chat/completions', body })}\n`;
    };
    await writeFile(requests, line('a') + line('b'));
    const [file = '', ...args] = await command(installation);
    return run(file, args, directory, { ...environment(context), OPENAI_API_KEY: openaiKey, REQUESTS: requests });
  },
});

export const libraries: readonly Client[] = [
  {
    name: 'OpenAI Agents SDK (JavaScript)',
    install: npm('@openai/agents', 'zod'),
    asserts: 'a tool loop, a continued response and a stream',
    run: script(() => process.execPath, 'agents-sdk.mjs'),
  },
  {
    name: 'OpenAI Agents SDK (Python)',
    install: python('venv', 'openai-agents'),
    asserts: 'a tool loop, a continued response, a stream and a session',
    run: script((installation) => join(installation, 'venv/bin/python'), 'agents_sdk.py'),
  },
  typed('openai-go', go, async (installation) => [join(installation, 'go/client')]),
  typed('async-openai', rust, async (installation) => [join(installation, 'rust/target/debug/baobab-client')]),
  typed('openai-java', java, async (installation) => {
    const project = join(installation, 'java');
    const packages = await readFile(join(project, 'classpath.txt'), 'utf8');
    return ['java', '-cp', `${join(project, 'target/classes')}:${packages.trim()}`, 'Client'];
  }),
  {
    name: 'compatcanary',
    install: npm('compatcanary'),
    asserts: 'its profile modern',
    run({ installation, address, model, apiKey, directory }) {
      const args = ['--base-url', `${address}/v1`, '--model', model, '--profile', 'modern', '--api-key', apiKey];
      return run(join(installation, 'node_modules/.bin/compatcanary'), args, directory, { OPENAI_API_KEY: apiKey });
    },
  },
];
