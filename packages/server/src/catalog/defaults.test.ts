import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { ggufFile } from '../../../engines/src/llama/testing/gguf-file.ts';
import { drivers } from '../drivers.ts';
import { CatalogError, loadCatalog } from './load.ts';

const root = mkdtempSync(join(tmpdir(), 'baobab-defaults-'));
afterAll(() => rmSync(root, { recursive: true }));

let directory: string;
let weights: string;
beforeEach(() => {
  directory = mkdtempSync(join(root, 'catalog-'));
  weights = mkdtempSync(join(root, 'weights-'));
});

function load(text: string) {
  writeFileSync(join(directory, 'model.yaml'), text);
  return loadCatalog([directory])[0];
}

function problems(text: string): string[] {
  try {
    load(text);
  } catch (error) {
    if (error instanceof CatalogError) return error.message.replaceAll(`${directory}/`, '').split('\n');
    throw error;
  }
  return [];
}

function putGguf(contextLength: number): string {
  const path = join(weights, 'writer.gguf');
  writeFileSync(
    path,
    ggufFile({
      'general.architecture': 'llama',
      'llama.context_length': contextLength,
      'llama.embedding_length': 576,
    }),
  );
  return path;
}

function putEncoder(): void {
  mkdirSync(join(weights, 'onnx'));
  writeFileSync(join(weights, 'onnx/model_quantized.onnx'), '');
  writeFileSync(join(weights, 'tokenizer.json'), '{}');
  writeFileSync(join(weights, 'config.json'), JSON.stringify({ hidden_size: 384, max_position_embeddings: 514 }));
}

describe('a catalog file with few fields', () => {
  it('describes a model behind an upstream by slug and modality alone', () => {
    expect(load('slug: acme/writer\nmodality: chat\n')).toEqual({
      slug: 'acme/writer',
      provider: 'acme',
      modality: 'chat',
      description: 'acme/writer',
      languages: [],
      license: 'unknown',
      created: 0,
      contextLength: 4096,
      maxOutputTokens: null,
      dimensions: null,
      truncation: false,
      starter: false,
      capabilities: { tools: true, jsonMode: true, vision: false, structuredOutput: true },
      pricing: { promptPerMillion: null, completionPerMillion: null, cacheReadPerMillion: null, audioPerMinute: null },
      recommended: '1970-01-01',
      versions: [
        {
          version: '1970-01-01',
          engine: { driver: 'remote', task: 'chat', options: {} },
          source: undefined,
          deprecatedAt: null,
          retiredAt: null,
        },
      ],
    });
  });

  it('takes driver, file and context length from a GGUF file', () => {
    const path = putGguf(2048);
    expect(load(`slug: acme/writer\nmodality: chat\nsource: { kind: file, path: ${path} }\n`)).toMatchObject({
      contextLength: 2048,
      versions: [{ engine: { driver: 'llama', task: 'chat', options: { model: 'writer.gguf' } } }],
    });
  });

  it('takes driver, files, context length and dimensions from a directory with an encoder', () => {
    putEncoder();
    expect(load(`slug: acme/embed\nmodality: embedding\nsource: { kind: file, path: ${weights} }\n`)).toMatchObject({
      contextLength: 512,
      dimensions: 384,
      capabilities: { tools: false },
      versions: [
        {
          engine: {
            driver: 'onnx',
            task: 'embedding',
            options: { model: 'onnx/model_quantized.onnx', tokenizer: 'tokenizer.json' },
          },
        },
      ],
    });
  });

  it('keeps what is given, and the recommended version of one', () => {
    const text = [
      'slug: acme/writer',
      'modality: chat',
      'created: 2026-10-01',
      'capabilities: { tools: false }',
      'pricing: { prompt_per_million: 0.2 }',
      'versions:',
      '  - version: 2026-10-05',
    ].join('\n');
    expect(load(text)).toMatchObject({
      created: Date.UTC(2026, 9, 1) / 1000,
      capabilities: { tools: false, jsonMode: true },
      pricing: { promptPerMillion: 0.2, completionPerMillion: null },
      recommended: '2026-10-05',
      versions: [{ version: '2026-10-05', engine: { driver: 'remote' } }],
    });
  });
});

describe('a catalog file that leaves out too much', () => {
  it('needs slug and modality', () => {
    expect(problems('description: Something\n')).toEqual([
      'model.yaml:1: slug: is required',
      'model.yaml:1: modality: is required',
    ]);
  });

  it('needs the recommended one of several versions', () => {
    const text = 'slug: acme/writer\nmodality: chat\nversions:\n  - version: 2026-10-05\n  - version: 2026-11-05\n';
    expect(problems(text)).toEqual(['model.yaml:1: recommended: is required']);
  });

  it('needs the dimensions of an embedding model that does not tell them', () => {
    expect(problems('slug: acme/embed\nmodality: embedding\n')).toEqual([
      'model.yaml:1: dimensions: is required for embedding models',
    ]);
  });

  it('names the fields of an only version as they are in the file', () => {
    const text = 'slug: acme/writer\nmodality: chat\nengine:\n  driver: llama\n  model: 7\n';
    expect(problems(text)).toEqual([
      expect.stringMatching(/^model\.yaml:5: engine\.model: must be a relative path such as/),
    ]);
  });

  it('refuses engine and source beside versions', () => {
    const text = 'slug: acme/writer\nmodality: chat\nengine: { driver: remote }\nversions:\n  - version: 2026-10-05\n';
    expect(problems(text)).toEqual(['model.yaml:3: engine: belongs into a version when versions are given']);
  });
});

describe('the context length', () => {
  it('is refused when the weights have less', () => {
    const path = putGguf(2048);
    const text = `slug: acme/writer\nmodality: chat\ncontext_length: 131072\nsource: { kind: file, path: ${path} }\n`;
    expect(problems(text)).toEqual([
      'model.yaml:3: context_length: is 131072, but the weights were made for at most 2048',
    ]);
  });
});

describe('an entry that names the driver command', () => {
  const entry = (engine: string) =>
    `slug: acme/writer\nmodality: chat\nengine: { driver: command, kind: llama-server, ${engine} }\nsource: { kind: file, path: ${putGguf(4096)} }\n`;

  it('has the only GGUF file as its weights', () => {
    const model = load(entry('command: [llama-server, --model, "{weights}", --port, "{port}"], memory_mb: 512'));
    expect(model?.versions[0]?.engine).toEqual({
      driver: 'command',
      task: 'chat',
      options: {
        kind: 'llama-server',
        command: ['llama-server', '--model', '{weights}', '--port', '{port}'],
        memoryMb: 512,
        weights: 'writer.gguf',
      },
    });
  });

  it('names only files that its source has, a known kind, and a command', () => {
    expect(problems(entry('command: [llama-server, --mmproj, "{files.encoder.gguf}"]'))).toEqual([
      expect.stringMatching(
        /^model\.yaml:\d+: source: there is no file 'encoder\.gguf' in .*; the task chat needs it$/,
      ),
    ]);
    expect(problems(entry('command: []'))[0]).toContain('engine.command');
    expect(problems(entry('kind: nonsense, command: [x]'))).not.toEqual([]);
  });
});

it('never runs a command that it does not name', () => {
  const model = load(`slug: acme/writer\nmodality: chat\nsource: { kind: file, path: ${putGguf(4096)} }\n`);
  expect(model?.versions[0]?.engine.driver).toBe('llama');
  const absent = drivers.map((driver) =>
    driver.mustBeNamed ? driver : { name: driver.name, tasks: {}, settings: {}, isAbsent: true },
  );
  expect(() => loadCatalog([directory], absent)).toThrow('driver');
});
