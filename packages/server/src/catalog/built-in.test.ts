import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { builtInWeights } from './built-in.ts';

const CATALOG = join(import.meta.dirname, '../../../../catalog');
const COMMIT = /^[0-9a-f]{40}$/;
const CHECKSUM = /^[0-9a-f]{64}$/;
/** Neither the commit nor the checksums of these are known. Their files are pinned where they are first fetched. */
const NOT_PINNED = [
  'baai/bge-large-en-v1.5.yaml',
  'mixedbread-ai/mxbai-embed-large-v1.yaml',
  'mixedbread-ai/mxbai-rerank-xsmall-v1.yaml',
  'openai/clip-vit-base-patch32.yaml',
];

interface Source {
  kind: string;
  path?: string;
  revision?: string;
  files?: { as: string; sha256?: string }[];
}

const files = readdirSync(CATALOG, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.yaml'))
  .map((name) => {
    const text = readFileSync(join(CATALOG, name), 'utf8');
    const { versions } = parse(text) as { versions: { source?: Source }[] };
    return { name, text, sources: versions.flatMap(({ source }) => source ?? []) };
  });
const fromHub = files.filter(({ sources }) => sources.some(({ kind }) => kind === 'hf'));

const isPinned = ({ kind, revision = '', files: parts = [] }: Source): boolean =>
  (kind === 'hf' && COMMIT.test(revision)) || parts.every(({ sha256 = '' }) => CHECKSUM.test(sha256));

describe('weights that ship with Baobab', () => {
  it('are here, each model in a folder of its own', () => {
    const shipped = files.flatMap(({ sources }) => sources).filter(({ kind }) => kind === 'file');
    expect(shipped.length).toBeGreaterThan(4);
    for (const { path = '' } of shipped) {
      expect(path).toMatch(/^models\/[a-z-]+\/\d{4}-\d{2}-\d{2}$/);
      expect(existsSync(builtInWeights(path).path), path).toBe(true);
    }
  });
});

describe('sources of the built-in catalog', () => {
  it('exist', () => {
    expect(files.length).toBeGreaterThan(40);
    expect(fromHub.length).toBeGreaterThan(5);
  });

  it('have a commit or a checksum of every file, but for known exceptions, which say so', () => {
    const notPinned = files.filter(({ sources }) => !sources.every(isPinned)).map(({ name }) => name);
    expect(notPinned.toSorted()).toEqual(NOT_PINNED);
    expect(files.filter(({ text }) => text.includes('# Not pinned:')).map(({ name }) => name)).toEqual(notPinned);
  });

  it('say whether a commit is not known', () => {
    const onBranch = fromHub.filter(({ sources }) => sources.some(({ revision = '' }) => !COMMIT.test(revision)));
    expect(onBranch.filter(({ text }) => !/# (Not pinned: t|T)he commit is not known/.test(text))).toEqual([]);
  });
});
