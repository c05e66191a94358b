import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadCatalog } from '../src/catalog/load.ts';

const ROOT = join(import.meta.dirname, '..');
const SLUG = 'baobab/embed-multilingual';
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

interface Measured {
  'FLORES-200 devtest': Record<string, Record<string, number>>;
  'STS-B': Record<string, Record<string, number>>;
}

const figures = JSON.parse(read('training/evaluate/figures.json')) as Record<string, Measured>;
const entry = loadCatalog([join(ROOT, 'catalog')]).find(({ slug }) => slug === SLUG);
const versions = (entry?.versions ?? [])
  .map(({ version }) => version)
  .toSorted()
  .toReversed();
const card = read('models/embed-multilingual/README.md').split('\n');

/** The cells of the row of a language, without its name and code. */
const cells = (code: string) =>
  card
    .filter((line) => line.split(' | ')[1] === code)
    .flatMap((line) => line.replace(/ \|$/, '').split(' | ').slice(2).map(Number));

describe('the card of the encoder', () => {
  it('has figures of every version in the catalog', () => {
    expect(Object.keys(figures)).toEqual(expect.arrayContaining(versions.map((version) => `${SLUG}@${version}`)));
  });

  it.each(Object.keys(figures[`${SLUG}@${versions[0]}`]?.['FLORES-200 devtest'] ?? {}))(
    'says what every version reaches in %s',
    (code) => {
      const measured = versions.map((version) => figures[`${SLUG}@${version}`]?.['FLORES-200 devtest'][code]?.['384']);
      const shown = cells(code);
      expect(shown).toHaveLength(versions.length + 3);
      for (const [column, share] of measured.entries()) {
        expect(Math.abs((shown[column] ?? Number.NaN) - 100 * (share ?? Number.NaN))).toBeLessThanOrEqual(0.0501);
      }
    },
  );

  it('names as many languages in the catalog as reach 50 %, and English', () => {
    const shares = Object.values(figures[`${SLUG}@${entry?.recommended}`]?.['FLORES-200 devtest'] ?? {});
    expect(entry?.languages).toHaveLength(
      1 + shares.filter((each) => Number((each['384'] ?? 0).toFixed(3)) >= 0.5).length,
    );
  });
});
