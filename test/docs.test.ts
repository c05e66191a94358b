import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { drawPlots, PLOTS, readResults } from '../bench/plots.ts';
import { KINDS } from '../packages/core/src/errors/kinds.ts';
import { settingsPage } from '../scripts/settings.ts';

const ROOT = join(import.meta.dirname, '..');
const pages = globSync(['*.md', 'docs/**/*.md', 'training/*.md', 'models/**/*.md'], { cwd: ROOT }).toSorted();
const read = (page: string) => readFileSync(join(ROOT, page), 'utf8');

const withoutCode = (text: string) => text.replaceAll(/^```[\s\S]*?^```/gm, '');
/** As GitHub makes them of headings. */
const anchorsOf = (text: string) =>
  [...withoutCode(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-'),
  );

describe('the documentation', () => {
  it('lists every error code with its status', () => {
    const rows = [...read('docs/errors.md').matchAll(/^\| (\d{3}) \| ([^|]+) \|/gm)];
    const listed = rows.flatMap(([, status, codes = '']) =>
      [...codes.matchAll(/`(\w+)`/g)].map(([, code = '']) => [code, Number(status)] as const),
    );
    const known = Object.entries(KINDS).map(([code, { status }]) => [code, status] as const);
    expect(listed.toSorted()).toEqual(known.toSorted());
  });

  it('lists every setting, written by scripts/settings.ts', () => {
    expect(read('docs/settings.md')).toBe(settingsPage());
  });

  it('shows plots of the results, written by bench/plots.ts, with no figure that the page does not state', () => {
    const results = readResults();
    for (const [name, svg] of Object.entries(drawPlots(results))) {
      expect(readFileSync(join(PLOTS, name), 'utf8'), name).toBe(svg);
      expect(read('docs/performance.md')).toContain(`](plots/${name})`);
    }
    const stated =
      read('docs/performance.md')
        .split('## Run the benchmarks')[0]
        ?.match(/\d[\d ]*(\.\d+)?/g) ?? [];
    const figures = new Set(stated.map((text) => Number(text.replaceAll(' ', ''))));
    const drawn = Object.values(results)
      .flat()
      .flatMap(({ rows }) => rows.map(({ value }) => value));
    expect(drawn.filter((value) => !figures.has(value))).toEqual([]);
  });

  it('lists every benchmark', () => {
    const listed = read('docs/performance.md').split('| benchmark |')[1] ?? '';
    const table = read('bench/run.ts').split('const BENCHMARKS')[1]?.split('\n};')[0] ?? '';
    const scripts = [...table.matchAll(/^ {2}'?([a-z-]+)'?: \{/gm)].map(([, name = '']) => name);
    expect(scripts.length).toBeGreaterThan(5);
    expect(scripts.filter((name) => !listed.includes(`\`${name}\``))).toEqual([]);
  });

  it.each(['README.md', 'docs/api.md', 'docs/clients.md', 'docs/models.md'])(
    '%s has examples with models of the catalog only',
    (page) => {
      // LiteLLM puts the kind of server before the name.
      const named = [
        ...read(page).matchAll(
          /\bmodel(?:_name)?"?\s*[:=]\s*["']?(?:(?:openai|jina_ai)\/(?=[\w-]+\/))?([a-z][\w-]*\/[\w.-]+)/g,
        ),
      ];
      const slugs = new Set(named.map(([, slug = '']) => slug));
      expect([...slugs].filter((slug) => !existsSync(join(ROOT, 'catalog', `${slug}.yaml`)))).toEqual([]);
    },
  );

  it('has an index of every page, once, which the README links to', () => {
    const index = read('docs/README.md');
    const listed = [...index.matchAll(/^- \[[^\]]+\]\(([\w-]+\.md)\): /gm)].map(([, page = '']) => `docs/${page}`);
    const inDocs = pages.filter((page) => dirname(page) === 'docs' && page !== 'docs/README.md');
    expect(listed.toSorted()).toEqual(inDocs);
    expect(read('README.md')).toContain('](docs/README.md)');
  });

  it.each(pages)('%s links only to files that exist', (page) => {
    const links = [...read(page).matchAll(/\]\((?!https?:|#)([^)\s#]+)/g)].map(([, target = '']) => target);
    expect(links.filter((target) => !existsSync(join(ROOT, dirname(page), target)))).toEqual([]);
  });

  it.each(pages)('%s has no text that the site would take for a template or for HTML', (page) => {
    const text = withoutCode(read(page)).replaceAll(/`[^`]*`|^ {4}.*$/gm, '');
    expect(text.match(/\{\{|<(?!!--|https?:)[a-z][^>]*>/gi) ?? []).toEqual([]);
  });

  // The site that scripts/docs.ts makes of these pages has the same anchors.
  it.each(pages)('%s links only to headings that exist', (page) => {
    const links = [...read(page).matchAll(/\]\((?!https?:)([^)\s#]*)#([^)\s]+)\)/g)];
    const missing = links.filter(([, target = '', id = '']) => {
      const path = target === '' ? page : join(dirname(page), target);
      return path.endsWith('.md') && !anchorsOf(read(path)).includes(id);
    });
    expect(missing.map(([link]) => link)).toEqual([]);
  });

  // Decision records speak of the code of their day.
  it.each(pages.filter((page) => !page.startsWith('docs/decisions/')))('%s names only files that exist', (page) => {
    const named = [
      ...read(page).matchAll(/`((?:packages|test|bench|scripts|docs|catalog|deploy|training)\/[\w./-]+)`/g),
    ];
    expect(named.map(([, path = '']) => path).filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });
});
