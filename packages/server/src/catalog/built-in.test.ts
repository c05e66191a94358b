import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

const CATALOG = join(import.meta.dirname, '../../../../catalog');
const COMMIT = /^[0-9a-f]{40}$/;

interface Source {
  kind: string;
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

describe('hub sources of the built-in catalog', () => {
  it('exist', () => {
    expect(fromHub.length).toBeGreaterThan(5);
  });

  it.each(fromHub)(
    '$name has a commit, a checksum of its weights, or says that it is not pinned',
    ({ text, sources }) => {
      for (const { revision = '', files: parts = [] } of sources) {
        const weights = parts.filter(({ as }) => /\.(gguf|onnx)$/.test(as));
        expect(weights).not.toEqual([]);
        const isPinned = COMMIT.test(revision) || weights.every(({ sha256 }) => sha256 !== undefined);
        expect(text.includes('# Not pinned:')).toBe(!isPinned);
      }
    },
  );
});
