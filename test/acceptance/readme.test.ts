import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningServer, startServer } from './start-server.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

/** The examples that people copy must work as they stand, but for the address. */
describe('the README', async () => {
  const text = await readFile(join(ROOT, 'README.md'), 'utf8');
  const blocks = [...text.matchAll(/```(\w+)\n([\s\S]*?)```/g)].map(([, language, code]) => ({
    language,
    code: code ?? '',
  }));
  let server: RunningServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const example = (code: string) => code.replaceAll('http://127.0.0.1:8080', server.address);
  const environment = () => ({ ...process.env, BAOBAB_API_KEY: server.apiKey });
  const named = (language: string, part: string) => {
    const found = blocks.filter((block) => block.language === language && block.code.includes(part));
    expect(found, `one ${language} block with ${part}`).toHaveLength(1);
    return found[0]?.code ?? '';
  };

  it('shows an embeddings request that works with curl', async () => {
    const { stdout } = await run('sh', ['-c', example(named('sh', '/v1/embeddings'))], { env: environment() });
    const answer = JSON.parse(stdout);
    expect(answer.data).toHaveLength(2);
    expect(answer.data[1].embedding).toHaveLength(384);
    expect(answer.usage.prompt_tokens).toBeGreaterThan(0);
  });

  it('shows a chat request that works with curl', { timeout: 120_000 }, async () => {
    const { stdout } = await run('sh', ['-c', example(named('sh', '/v1/chat/completions'))], { env: environment() });
    expect(JSON.parse(stdout).choices[0].message.content).toContain('Paris');
  });

  it('shows a program for the OpenAI SDK that works', async () => {
    const code = example(named('js', "from 'openai'"));
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', code], {
      env: environment(),
      cwd: ROOT,
    });
    expect(stdout).toMatch(/^384 \{ prompt_tokens: \d+, total_tokens: \d+ \}/);
  });
});
