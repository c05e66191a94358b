import { globSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadCatalog } from '../packages/server/src/catalog/load.ts';

const ROOT = join(import.meta.dirname, '..');
const SLUG = 'baobab/embed-multilingual';
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

interface Measured {
  'FLORES-200 devtest': Record<string, Record<string, number>>;
  'STS-B': Record<string, Record<string, number>>;
  'NTREX-128': Record<string, Record<string, number>>;
}

const measured: unknown = JSON.parse(read('training/evaluate/figures.json'));
const figures = measured as Record<string, Partial<Measured>>;
const others = measured as {
  rerank: Record<string, Record<string, number>>;
  chrF: Record<string, Record<string, { chrF: number }>>;
};
const page = read('docs/models.md');

/** The rows of a table that card.py writes to docs/models.md, by the model they are about. */
function rows(table: string) {
  const text = page.split(`<!-- card.py: ${table} -->\n`)[1]?.split('<!-- end -->')[0] ?? '';
  const cells = text.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
  return new Map(cells.map(([, name = '', ...rest]) => [/`([^`]+)`/.exec(name)?.[1] ?? name, rest]));
}
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
      const measured = versions.map(
        (version) => figures[`${SLUG}@${version}`]?.['FLORES-200 devtest']?.[code]?.['384'],
      );
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

// A little less, because the page rounds.
const THREE_DIGITS = 2.9;
const ONE_DIGIT = 0.9;

describe('docs/models.md', () => {
  const shown = (table: string, model: string) =>
    rows(table)
      .get(model)
      ?.map((cell) => Number.parseFloat(cell)) ?? [];

  it.each(Object.entries(figures).filter(([, { 'STS-B': similarity }]) => similarity))(
    'says how well %s grades similarity',
    (model, { 'STS-B': similarity }) => {
      expect(shown('embedders', model)[2]).toBeCloseTo(similarity?.en?.['384'] ?? Number.NaN, THREE_DIGITS);
    },
  );

  const rerankers = Object.keys(others.rerank).filter((name) => name.startsWith('baobab/'));
  it.each(rerankers)('says how %s orders each set', (model) => {
    const sets = ['nq', 'cranfield', 'scifact', 'afriqa', 'afriqa-translated'];
    for (const [column, set] of sets.entries()) {
      const figure = others.rerank[model]?.[set];
      if (figure === undefined) expect(rows('reranked').get(model)?.[column]).toBe('not measured');
      else expect(shown('reranked', model)[column]).toBeCloseTo(figure, THREE_DIGITS);
    }
  });

  it.each(Object.entries(others.chrF))('says how %s translates', (model, ways) => {
    for (const [column, way] of ['eng-swh', 'swh-eng'].entries()) {
      const figure = ways[way]?.chrF;
      if (figure === undefined) expect(rows('translation').get(model)?.[column]).toBe('not measured');
      else expect(shown('translation', model)[column]).toBeCloseTo(figure, ONE_DIGIT);
    }
  });
});

describe('the weights in the checkout', () => {
  // A clone has to stay small: a better model replaces one instead of joining it.
  it('take less than 235 MB together', () => {
    const files = globSync('models/**/*.{onnx,gguf,json}', { cwd: ROOT });
    const bytes = files.reduce((sum, file) => sum + statSync(join(ROOT, file)).size, 0);
    expect(bytes).toBeGreaterThan(100e6);
    expect(bytes).toBeLessThan(235e6);
  });

  it('are those that the catalog names', () => {
    const named = loadCatalog([join(ROOT, 'catalog')]).flatMap(({ versions }) =>
      versions.flatMap(({ source }) =>
        source?.kind === 'file' ? (source.files ?? []).map(({ as }) => relative(ROOT, join(source.path, as))) : [],
      ),
    );
    const inCheckout = globSync('models/*/*/*', { cwd: ROOT });
    expect([...new Set(named)].toSorted()).toEqual(inCheckout.toSorted());
  });
});
