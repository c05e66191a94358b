import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from './shared-account.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

/** The examples that people copy must work unchanged, except for the address. */
describe('the examples', async () => {
  const blocksOf = async (page: string) =>
    [...(await readFile(join(ROOT, page), 'utf8')).matchAll(/```(\w+)\n([\s\S]*?)```/g)].map(
      ([, language, code = '']) => ({ language, code }),
    );
  const blocks = [...(await blocksOf('README.md')), ...(await blocksOf('docs/api.md'))];
  let server: SharedAccount;
  let directory: string;
  beforeAll(async () => {
    server = await openAccount();
    directory = await mkdtemp(join(tmpdir(), 'baobab-examples-'));
  });
  afterAll(async () => {
    await rm(directory, { recursive: true, force: true });
  });

  const example = (code: string) => code.replaceAll('http://127.0.0.1:8080', server.address);
  const environment = () => ({ ...process.env, BAOBAB_API_KEY: server.apiKey });
  const named = (language: string, part: string) => {
    const found = blocks.filter((block) => block.language === language && block.code.includes(part));
    expect(found, `one ${language} block with ${part}`).toHaveLength(1);
    return found[0]?.code ?? '';
  };
  const shell = async (part: string) =>
    (await run('sh', ['-c', example(named('sh', part))], { env: environment(), cwd: directory })).stdout;

  it('show an embeddings request that works with curl', async () => {
    const answer = JSON.parse(await shell('"Hello world"]'));
    expect(answer.data).toHaveLength(2);
    expect(answer.data[1].embedding).toHaveLength(384);
    expect(answer.usage.prompt_tokens).toBeGreaterThan(0);
  });

  it('show an input that is cut', async () => {
    const answer = await shell('"truncate_prompt_tokens": 4');
    expect(answer).toMatch(/^HTTP\/1.1 200 /);
    expect(answer).toMatch(/^x-truncated-inputs: 1\r$/im);
  });

  it('show a chat request that works with curl', async () => {
    expect(JSON.parse(await shell('What is the capital of Kenya?')).choices[0].message.content).toContain('Nairobi');
  });

  it('show a JSON schema that the answer fits', async () => {
    const [choice] = JSON.parse(await shell('json_schema')).choices;
    expect(JSON.parse(choice.message.content)).toEqual({
      name: expect.any(String),
      age: expect.any(Number),
      city: expect.any(String),
    });
  });

  it('show a function that the model calls, and its result that the model reads', async () => {
    const [call, answer] = (await shell('get_weather'))
      .split(/(?<=\})(?=\{"id")/)
      .map((json) => JSON.parse(json).choices[0].message);
    expect(call.tool_calls[0].function.name).toBe('get_weather');
    expect(JSON.parse(call.tool_calls[0].function.arguments)).toEqual({ city: expect.any(String) });
    expect(answer.content).not.toBe('');
  });

  it('show a rerank request that works with curl', async () => {
    const { results } = JSON.parse(await shell('8080/v1/rerank'));
    expect(results.map(({ index }: { index: number }) => index)).toEqual([1, 0]);
  });

  it('show a transcription that works with curl', async () => {
    await cp(join(ROOT, 'test/fixtures/audio'), join(directory, 'test/fixtures/audio'), { recursive: true });
    const answer = JSON.parse(await shell('8080/v1/audio/transcriptions'));
    expect(answer.text).toMatch(/apples/i);
    expect(answer.segments.length).toBeGreaterThan(0);
  });

  it('show a batch that works with curl', async () => {
    const lines = (await shell('requests.jsonl')).trim().split('\n');
    const answers = lines.map((line) => JSON.parse(line));
    expect(answers.map(({ custom_id: id, response }) => [id, response.status_code]).toSorted()).toEqual([
      ['a', 200],
      ['b', 200],
    ]);
    expect(answers[0].response.body.data[0].embedding).toHaveLength(384);
  });

  it('show a message batch that works with curl', async () => {
    const lines = (await shell('8080/v1/messages/batches')).trim().split('\n');
    const answers = lines.map((line) => JSON.parse(line));
    expect(answers.map(({ custom_id: id, result }) => [id, result.type]).toSorted()).toEqual([
      ['a', 'succeeded'],
      ['b', 'succeeded'],
    ]);
    expect(answers[0].result.message.content[0].text).not.toBe('');
  });

  it('show a program for the OpenAI SDK that works', async () => {
    const code = example(named('js', "from 'openai'"));
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', code], {
      env: environment(),
      cwd: ROOT,
    });
    expect(stdout).toMatch(/^384 \{ prompt_tokens: \d+, total_tokens: \d+ \}/);
  });
});
