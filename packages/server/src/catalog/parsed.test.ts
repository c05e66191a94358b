import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readYaml } from '../validation/document.ts';
import { openParsedCatalog } from './parsed.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'baobab-parsed-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Reads texts as one start does. */
function start(...texts: string[]) {
  const parsed = openParsedCatalog(folder);
  const documents = texts.map((text, index) => {
    const file = join(folder, `${index}.yaml`);
    writeFileSync(file, text);
    return readYaml(file, parsed);
  });
  parsed?.save();
  return documents;
}
const kept = () => openParsedCatalog(folder);

describe('openParsedCatalog', () => {
  it('gives the next start the values of unchanged texts, and finds their lines', () => {
    const [first] = start('a_b: [1]\nc: 2026-01-31\n');
    const [second] = start('a_b: [1]\nc: 2026-01-31\n');
    expect(second?.value).toEqual({ aB: [1], c: '2026-01-31' });
    expect(second?.value).toEqual(first?.value);
    expect(second?.locate(['c'])).toBe(`${join(folder, '0.yaml')}:2`);
  });

  it('keeps no text with an error, and forgets what the last start that read a new one did not ask for', () => {
    start('a: 1', 'b: [');
    expect(kept()?.get('a: 1')).toEqual({ a: 1 });
    expect(kept()?.get('b: [')).toBeUndefined();
    start('c: 3');
    expect(kept()?.get('a: 1')).toBeUndefined();
    expect(kept()?.get('c: 3')).toEqual({ c: 3 });
  });

  it('starts afresh with a damaged file', () => {
    start('a: 1');
    for (const name of readdirSync(folder).filter((each) => each.endsWith('.json')))
      writeFileSync(join(folder, name), '{"');
    expect(kept()?.get('a: 1')).toBeUndefined();
  });
});
