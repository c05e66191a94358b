import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Type } from 'typebox';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { CatalogError, loadCatalog } from './load.ts';

const root = mkdtempSync(join(tmpdir(), 'baobab-catalog-'));
afterAll(() => rmSync(root, { recursive: true }));
let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(root, 'case-'));
});

const MODEL = `slug: acme/tiny
modality: embedding
description: A small encoder.
languages: [en]
license: MIT
created: 2024-01-01
context_length: 512
max_output_tokens: null
dimensions: 8
capabilities: { tools: false, json_mode: false, vision: false, structured_output: false }
pricing: { prompt_per_million: 0.01, completion_per_million: null, cache_read_per_million: null }
recommended: 2026-01-31
versions:
  - version: 2026-01-31
    engine: { driver: onnx, task: embedding, model: model.onnx, tokenizer: tokenizer.json, pooling: mean }
    source:
      kind: hf
      repo: acme/tiny
      revision: main
      files:
        - as: model.onnx
          path: onnx/model.onnx
        - as: tokenizer.json
          path: tokenizer.json
`;

const changed = (changes: Record<string, unknown>): string => stringify({ ...parse(MODEL), ...changes });

function put(name: string, text: string): void {
  const path = join(directory, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

function problems(text: string): string[] {
  put('acme/tiny.yaml', text);
  try {
    loadCatalog([directory]);
  } catch (error) {
    if (error instanceof CatalogError)
      return error.message.split('\n').map((line) => line.replace(`${directory}/`, ''));
    throw error;
  }
  return [];
}

const version = (changes: Record<string, unknown>) => [{ ...parse(MODEL).versions[0], ...changes }];

describe('a catalog file', () => {
  it('becomes an entry in the names of the code', () => {
    put('acme/tiny.yaml', MODEL);
    expect(loadCatalog([directory])).toEqual([
      expect.objectContaining({
        slug: 'acme/tiny',
        provider: 'acme',
        created: 1_704_067_200,
        contextLength: 512,
        maxOutputTokens: null,
        truncation: false,
        starter: false,
        pricing: {
          promptPerMillion: 0.01,
          completionPerMillion: null,
          cacheReadPerMillion: null,
          audioPerMinute: null,
        },
        versions: [expect.objectContaining({ version: '2026-01-31', deprecatedAt: null, retiredAt: null })],
      }),
    ]);
  });

  it('may say which side of inputs that are too long is cut', () => {
    put('acme/tiny.yaml', changed({ truncate_inputs: 'start' }));
    expect(loadCatalog([directory])).toEqual([expect.objectContaining({ truncateInputs: 'start' })]);
  });

  it('says file and line of a misspelt key and of a bad value', () => {
    const text = MODEL.replace('licence', 'license')
      .replace('context_length: 512', 'context_length: many')
      .replace('license:', 'licence:');
    expect(problems(text)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(
          /^acme\/tiny\.yaml:5: licence: unknown key; did you mean license\? allowed here: slug, modality, /,
        ),
        'acme/tiny.yaml:7: context_length: must be a whole number of at least 1',
      ]),
    );
  });

  it('says the line of a mistake deep inside lists of the same index', () => {
    const text = MODEL.replace(
      '          path: onnx/model.onnx',
      '          path: onnx/model.onnx\n          bytes: none',
    );
    expect(problems(text)).toEqual([
      'acme/tiny.yaml:23: versions.0.source.files.0.bytes: must be a whole number of at least 1',
    ]);
  });

  it('says only what is wrong, and nothing of fields that follow from it', () => {
    const model = (fields: string) => problems(`slug: acme/tiny\nmodality: chat\n${fields}`);
    expect(model('created: yesterday')).toEqual(['acme/tiny.yaml:3: created: must be a date such as 2026-11-15']);
    expect(model('source: { kind: file, path: ~/tiny.gguf }')).toEqual([
      "acme/tiny.yaml:3: source.path: must be an absolute path; '~' is not expanded",
    ]);
  });

  it('says the line where the YAML itself is broken', () => {
    expect(problems(`${MODEL}  bad: [`)[0]).toMatch(/^acme\/tiny\.yaml:2\d: /);
  });

  it.each([
    ['an empty file', '', /: must be an object/],
    ['a list', '- a', /: must be an object/],
    [
      'a slug without provider',
      MODEL.replace('acme/tiny', 'tiny'),
      /:1: slug: must be a provider and a name such as acme\/writer-8b/,
    ],
    [
      'an embedding model without dimensions',
      changed({ dimensions: null }),
      /dimensions: is required for embedding models/,
    ],
    [
      'a chat model with dimensions',
      changed({ modality: 'chat' }),
      /dimensions: only embedding models have dimensions/,
    ],
    [
      'truncation of another modality',
      changed({ modality: 'rerank', dimensions: null, truncation: true }),
      /truncation: only embedding/,
    ],
    [
      'inputs of another modality that are cut',
      changed({ modality: 'audio', dimensions: null, truncate_inputs: 'end' }),
      /truncate_inputs: only inputs of embedding models and rerankers can be cut/,
    ],
    [
      'inputs that are cut at a side that there is not',
      changed({ truncate_inputs: 'left' }),
      /truncate_inputs: must be/,
    ],
    [
      'a recommended version that is not there',
      changed({ recommended: '2026-02-01' }),
      /recommended: names no version of this model; there are: 2026-01-31/,
    ],
    [
      'an impossible date',
      changed({ recommended: '2026-02-30', versions: version({ version: '2026-02-30' }) }),
      /versions\.0\.version: 2026-02-30 is not a day/,
    ],
    [
      'the same version twice',
      changed({ versions: [...version({}), ...version({})] }),
      /versions\.1\.version: 2026-01-31 is listed twice/,
    ],
    [
      'no source of weights',
      changed({ versions: version({ source: undefined }) }),
      /versions\.0\.source: is required for models that run here/,
    ],
    [
      'a hub without a revision',
      changed({ versions: version({ source: { kind: 'hf', repo: 'a/b' } }) }),
      /versions\.0\.source: a source of kind 'hf' needs repo and revision/,
    ],
    [
      'an npm file without its hash',
      changed({ versions: version({ source: { kind: 'npm', files: [{ as: 'a' }] } }) }),
      /versions\.0\.source\.files\.0: a file of kind 'npm' needs sha256/,
    ],
    [
      'a file name that leaves its directory',
      MODEL.replace('as: model.onnx', 'as: ../model.onnx'),
      /:21: versions\.0\.source\.files\.0\.as: must be a relative path such as onnx\/model\.onnx/,
    ],
  ])('refuses %s', (_, text, expected) => {
    const found = problems(text);
    expect(found.join('\n')).toMatch(expected);
    for (const line of found) expect(line).toMatch(/^acme\/tiny\.yaml:\d+: /);
  });
});

describe('the engine of a version', () => {
  const engine = (text: string) =>
    problems(
      MODEL.replace(/engine: .*/, `engine: ${text}`)
        .replace('modality: embedding', 'modality: audio')
        .replace('8', 'null'),
    );

  it.each([
    [
      'a task that its driver does not have',
      '{ driver: llama, task: transcription, model: model.gguf }',
      'task: the driver llama has no such task; it has "chat", "embedding", "cross-encoder"',
    ],
    [
      'a driver that does not exist',
      '{ driver: tensorflow, task: transcription }',
      'driver: must be one of "onnx", "llama", "command", "remote"',
    ],
    [
      'a field that is missing for its task',
      '{ driver: onnx, task: transcription, model: e.onnx, tokenizer: t.json }',
      'decoder: is required',
    ],
    [
      'a field that is not of its task',
      '{ driver: onnx, task: transcription, model: e.onnx, decoder: d.onnx, tokenizer: t.json, pooling: cls }',
      'pooling: unknown key; allowed here: driver, task, model, decoder, tokenizer',
    ],
    [
      'a task for another modality',
      '{ driver: llama, task: chat, model: model.onnx }',
      'task: a model of the modality audio needs the task transcription',
    ],
  ])('with %s is refused with its line', (_, text, expected) => {
    expect(engine(text)).toEqual([`acme/tiny.yaml:15: versions.0.engine.${expected}`]);
  });

  it('is reported together with other mistakes of the file', () => {
    const text = MODEL.replace('license: MIT', 'license: ""').replace('pooling: mean', 'pooling: most');
    expect(problems(text)).toEqual([
      'acme/tiny.yaml:5: license: must be a non-empty string',
      'acme/tiny.yaml:15: versions.0.engine.pooling: must be one of "mean", "cls", "last"',
    ]);
  });

  it('keeps the fields of its driver as options', () => {
    put('acme/tiny.yaml', MODEL);
    expect(loadCatalog([directory])[0]?.versions[0]?.engine).toEqual({
      driver: 'onnx',
      task: 'embedding',
      options: { model: 'model.onnx', tokenizer: 'tokenizer.json', pooling: 'mean' },
    });
  });

  it('may be of any driver in the list', () => {
    const text = MODEL.replace(/engine: .*/, 'engine: { driver: own, task: embedding, shape: round }');
    put('acme/tiny.yaml', text.replace(/ {4}source:[\s\S]*/, ''));
    const own = { name: 'own', tasks: { embedding: { shape: Type.String() } }, settings: {} };
    expect(loadCatalog([directory], [own])[0]?.versions[0]?.engine.options).toEqual({ shape: 'round' });
  });
});

describe('the weights of a version', () => {
  const gguf = (source: string, model = 'writer.gguf') =>
    problems(
      MODEL.replace(/engine: .*/, `engine: { driver: llama, task: embedding, model: ${model} }`).replace(
        /source:[\s\S]*/,
        `source: ${source}\n`,
      ),
    );

  it('may be a file or a directory on this machine', () => {
    put('weights/writer.gguf', '');
    expect(gguf(`{ kind: file, path: ${directory}/weights/writer.gguf }`)).toEqual([]);
    expect(gguf(`{ kind: file, path: ${directory}/weights }`)).toEqual([]);
  });

  it.each([
    ['a path that does not exist', '/nowhere/writer.gguf', 'there is no file or directory /nowhere/writer.gguf'],
    ['a relative path', 'models/writer.gguf', 'must be an absolute path'],
    ['a path below ~', '~/writer.gguf', "must be an absolute path; '~' is not expanded"],
  ])('are not at %s', (_, path, expected) => {
    expect(gguf(`{ kind: file, path: '${path}' }`)).toEqual([`acme/tiny.yaml:16: versions.0.source.path: ${expected}`]);
  });

  it('have every file that the engine needs', () => {
    put('weights/writer.gguf', '');
    expect(gguf(`{ kind: file, path: ${directory}/weights/writer.gguf }`, 'other.gguf')).toEqual([
      expect.stringContaining("tiny.yaml:15: versions.0.engine.model: there is no file 'other.gguf' in "),
    ]);
    expect(problems(MODEL.replace('as: tokenizer.json', 'as: other.json'))).toEqual([
      "acme/tiny.yaml:15: versions.0.engine.tokenizer: the source has no file 'tokenizer.json'; it has model.onnx, other.json",
    ]);
  });

  it('need not be there for a version that is retired', () => {
    const source = '{ kind: file, path: /nowhere/writer.gguf }';
    expect(gguf(`${source}\n    notice_at: 2020-01-01\n    retired_at: 2021-01-01`)).toEqual([]);
  });

  it('are not for models that only upstreams run', () => {
    expect(problems(MODEL.replace(/engine: .*/, 'engine: { driver: remote, task: embedding }'))).toEqual([
      'acme/tiny.yaml:16: versions.0.source: is not for models that only upstreams run',
    ]);
  });
});

describe('removal dates in files', () => {
  it('need 90 days from the announcement', () => {
    const enough = { deprecated_at: '2026-06-01', notice_at: '2026-03-03' };
    expect(problems(changed({ versions: version(enough) }))).toEqual([]);
    expect(loadCatalog([directory])[0]?.versions[0]?.deprecatedAt).toBe(Date.UTC(2026, 5, 1));
    expect(problems(changed({ versions: version({ ...enough, notice_at: '2026-03-04' }) }))).toEqual([
      expect.stringContaining(
        'versions.0.deprecated_at: 2026-06-01 leaves less than 90 days of notice; the earliest date is 2026-06-02',
      ),
    ]);
  });

  it('need the day of the announcement', () => {
    expect(problems(changed({ versions: version({ deprecated_at: '2026-06-01' }) }))[0]).toContain(
      'versions.0.deprecated_at: a removal date needs notice_at, the day it was announced',
    );
  });

  it('do not let a version retire before the day that was announced', () => {
    const dates = { deprecated_at: '2026-12-01', retired_at: '2026-11-01', notice_at: '2026-01-01' };
    expect(problems(changed({ versions: version(dates) }))[0]).toContain(
      'versions.0.retired_at: is before deprecated_at',
    );
  });
});

describe('several files', () => {
  it('name a slug once within a directory, and say where it is described already', () => {
    put('acme/tiny.yaml', MODEL);
    put('other.yaml', `# the same again\n${MODEL}`);
    expect(() => loadCatalog([directory])).toThrow(
      `${directory}/other.yaml:2: slug: acme/tiny is described in acme/tiny.yaml already`,
    );
  });

  it('of a later directory replace built-in models', () => {
    put('one/tiny.yaml', MODEL);
    put('two/tiny.yaml', MODEL.replace('A small encoder', 'Ours'));
    const [entry] = loadCatalog([join(directory, 'one'), join(directory, 'two')]);
    expect(entry?.description).toBe('Ours.');
  });

  it('are reported together', () => {
    put('a.yaml', MODEL.replace('modality: embedding', 'modality: smell'));
    put('b.yaml', MODEL.replace('license: MIT', 'license: ""'));
    expect(() => loadCatalog([directory, '/nowhere'])).toThrow(
      /a\.yaml:2: modality[\s\S]*b\.yaml:5: license[\s\S]*\/nowhere: there is no/,
    );
  });
});

describe('the built-in catalog', () => {
  const entries = loadCatalog([join(import.meta.dirname, '../../../../catalog')]);
  const shapes = entries
    .filter(({ modality }) => modality === 'embedding')
    .map(
      ({ dimensions, contextLength, truncation }) => `${dimensions}/${contextLength}${truncation ? '/truncation' : ''}`,
    );

  it('has every modality', () => {
    expect(new Set(entries.map(({ modality }) => modality))).toEqual(new Set(['chat', 'embedding', 'rerank', 'audio']));
  });

  it.each(['1024/8192/truncation', '1024/512', '4096/4096', '1536/8192'])(
    'has an embedding model of the shape %s',
    (shape) => {
      expect(shapes).toContain(shape);
    },
  );

  it('has two encoders of 1024 dimensions that take 512 tokens, and two that take 8192 and can be shortened', () => {
    expect(shapes.filter((shape) => shape === '1024/512').length).toBeGreaterThanOrEqual(2);
    expect(shapes.filter((shape) => shape === '1024/8192/truncation').length).toBeGreaterThanOrEqual(2);
  });

  it('has models of its own', () => {
    expect(entries.some(({ provider }) => provider === 'baobab')).toBe(true);
  });

  it('bills chat for prompt and completion, audio by the minute, and the others for the prompt alone', () => {
    for (const { slug, modality, pricing } of entries) {
      expect(pricing.completionPerMillion !== null, slug).toBe(modality === 'chat');
      expect(pricing.audioPerMinute !== null, slug).toBe(modality === 'audio');
      expect(pricing.promptPerMillion !== null, slug).toBe(modality !== 'audio');
    }
  });
});
