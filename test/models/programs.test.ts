import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rankingModel } from '../../packages/engines/src/llama/testing/ranking-model.ts';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { until } from '../fixtures/engine-bed.ts';
import { freePort } from '../fixtures/free-port.ts';
import { tinyAdapter, tinyChat, tinyImageEncoder } from '../fixtures/programs/tiny-models.ts';

/** As `baobab engines build llama-server` makes it. */
const PROGRAM = process.env.BAOBAB_LLAMA_SERVER ?? join(homedir(), '.baobab/engines/llama-server');
const isThere = existsSync(PROGRAM);
const why = isThere ? '' : ` (skipped: no ${PROGRAM}, see 'baobab engines build')`;

/** Eight by eight pixels of many colours. */
const IMAGE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAbElEQVR4nA3JQQEAMAgDMZzgpE7qhMf5wAlO6mbLN1VFFypcTLHFFSmqmm7UuJlmm2vSP0QLCYsRK05EP0wbGZsxa87EP4YeNHiYYYcbMj+WXrR4mWWXW7I/jj50+JhjjztyP0IHBYcJGy4kPDtbVkGLfGO6AAAAAElFTkSuQmCC';
const FLAGS = ['--ctx-size', '2048', '--parallel', '1', '--threads', '1', '--jinja', '--no-warmup'];

/** The entries of the catalog, and the files that each names beside its weights. */
const MODELS = {
  plain: [],
  vision: ['--mmproj', 'encoder.gguf'],
  adapted: ['--lora', 'adapter.gguf'],
  vectors: ['--embeddings', '--pooling', 'mean'],
  scores: ['--rerank'],
} satisfies Record<string, readonly string[]>;
type Name = keyof typeof MODELS;
const FACTS: Partial<Record<Name, string>> = {
  vision: 'modality: chat\ncapabilities: { vision: true }',
  vectors: 'modality: embedding\ndimensions: 256',
  scores: 'modality: rerank',
};
const weightsOf = (name: Name): string => (name === 'scores' ? 'ranking.gguf' : 'model.gguf');

interface Answer {
  choices: { message: { content: string }; finish_reason: string }[];
  usage: { prompt_tokens: number; completion_tokens: number };
}

interface Vectors {
  data: { embedding: number[] }[];
  usage: { prompt_tokens: number };
}

interface Scores {
  results: { index: number; relevance_score: number }[];
}

describe.skipIf(!isThere)(`llama-server as a program of the catalog${why}`, () => {
  let folder: string;
  let server: RunningServer;
  const started: ChildProcess[] = [];

  const entry = (name: Name): string => {
    const extra = MODELS[name].map((each) => (each.endsWith('.gguf') ? `{files.${each}}` : each));
    const command = [PROGRAM, '--model', '{weights}', '--host', '{host}', '--port', '{port}', ...FLAGS, ...extra];
    return `slug: acme/${name}
${FACTS[name] ?? 'modality: chat'}
context_length: 2048
engine: { driver: command, kind: llama-server, weights: ${weightsOf(name)}, max_concurrency: 1, command: ${JSON.stringify(command)} }
source: { kind: file, path: ${JSON.stringify(folder)} }
`;
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'baobab-llama-server-'));
    await writeFile(join(folder, 'model.gguf'), tinyChat());
    await writeFile(join(folder, 'ranking.gguf'), rankingModel());
    await writeFile(join(folder, 'encoder.gguf'), tinyImageEncoder());
    await writeFile(join(folder, 'adapter.gguf'), tinyAdapter());
    await mkdir(join(folder, 'catalog'));
    for (const name of Object.keys(MODELS) as Name[]) {
      await writeFile(join(folder, 'catalog', `${name}.yaml`), entry(name));
    }
    server = await startServer({ args: ['--catalog-dir', join(folder, 'catalog')] });
  });
  afterAll(async () => {
    for (const child of started) child.kill('SIGKILL');
    await server[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  /** The same program with the same files, asked without Baobab. */
  async function startAlone(name: Name): Promise<string> {
    const port = await freePort();
    const extra = MODELS[name].map((each) => (each.endsWith('.gguf') ? join(folder, each) : each));
    const args = ['--model', join(folder, weightsOf(name)), '--port', `${port}`, ...FLAGS, ...extra];
    const child = spawn(PROGRAM, args, { stdio: 'ignore' });
    started.push(child);
    const address = `http://127.0.0.1:${port}`;
    await until(() =>
      fetch(`${address}/health`).then(
        ({ status }) => status === 200,
        () => false,
      ),
    );
    return address;
  }

  async function ask(address: string, name: Name, content: unknown): Promise<Answer> {
    const body = {
      model: `acme/${name}`,
      messages: [{ role: 'user', content }],
      max_tokens: 24,
      temperature: 0,
    };
    const answer = await fetch(`${address}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await answer.text();
    expect(answer.status, text).toBe(200);
    return JSON.parse(text) as Answer;
  }

  const textOf = ({ choices: [choice] }: Answer): string => choice?.message.content ?? '';
  const picture = [
    { type: 'text', text: 'What is this?' },
    { type: 'image_url', image_url: { url: IMAGE } },
  ];

  it.each<[Name, unknown]>([
    ['plain', 'What is this?'],
    ['vision', picture],
    ['adapted', 'What is this?'],
  ])('%s: answers with the text and the usage of llama-server itself', async (name, content) => {
    const alone = await startAlone(name);
    const direct = await ask(alone, name, content);
    const through = await ask(server.address, name, content);
    expect(textOf(through)).toBe(textOf(direct));
    expect(textOf(direct).length).toBeGreaterThan(0);
    const { prompt_tokens, completion_tokens } = direct.usage;
    expect(through.usage).toMatchObject({ prompt_tokens, completion_tokens });
    expect(through.choices[0]?.finish_reason).toBe(direct.choices[0]?.finish_reason);
  });

  it('gives the vectors of llama-server itself', async () => {
    const alone = await startAlone('vectors');
    const inputs = Array.from({ length: 40 }, (_, index) => `text ${index}`);
    const embed = async (address: string): Promise<Vectors> => {
      const answer = await fetch(`${address}/v1/embeddings`, {
        method: 'POST',
        headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'acme/vectors', input: inputs }),
      });
      return (await answer.json()) as Vectors;
    };
    const [direct, through] = [await embed(alone), await embed(server.address)];
    expect(through.data.length).toBe(40);
    for (const [index, { embedding }] of through.data.entries()) {
      const expected = direct.data[index]?.embedding ?? [];
      expect(embedding.length).toBe(256);
      const differences = embedding.map((value, at) => Math.abs(value - (expected[at] ?? Number.NaN)));
      expect(Math.max(...differences)).toBeLessThan(1e-4);
    }
    expect(through.usage.prompt_tokens).toBe(direct.usage.prompt_tokens);
  });

  it('gives the scores of llama-server itself, from 0 to 1', async () => {
    const alone = await startAlone('scores');
    const rank = async (address: string): Promise<Scores> => {
      const answer = await fetch(`${address}/v1/rerank`, {
        method: 'POST',
        headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'acme/scores', query: 'a tree', documents: ['oak', 'a green tree', 'stone'] }),
      });
      return (await answer.json()) as Scores;
    };
    const [direct, through] = [await rank(alone), await rank(server.address)];
    expect(through.results.length).toBe(3);
    for (const { index, relevance_score: score } of through.results) {
      const logit = direct.results.find((each) => each.index === index)?.relevance_score ?? Number.NaN;
      expect(score).toBeCloseTo(1 / (1 + Math.exp(-logit)), 4);
    }
  });

  it('hears images and adapters: both change the answer', async () => {
    const plain = await ask(server.address, 'plain', 'What is this?');
    const seen = await ask(server.address, 'vision', picture);
    const unseen = await ask(server.address, 'vision', 'What is this?');
    const adapted = await ask(server.address, 'adapted', 'What is this?');
    expect(seen.usage.prompt_tokens).toBeGreaterThan(unseen.usage.prompt_tokens + 10);
    expect(textOf(unseen)).toBe(textOf(plain));
    expect(textOf(seen)).not.toBe(textOf(plain));
    expect(textOf(adapted)).not.toBe(textOf(plain));
  });
});
