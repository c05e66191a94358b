import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { KINDS } from '../src/errors/kinds.ts';

const ROOT = join(import.meta.dirname, '..');
const pages = globSync(['*.md', 'docs/**/*.md', 'training/*.md', 'models/**/*.md'], { cwd: ROOT }).toSorted();
const read = (page: string) => readFileSync(join(ROOT, page), 'utf8');

describe('the documentation', () => {
  it('lists every error code with its status', () => {
    const rows = [...read('docs/errors.md').matchAll(/^\| (\d{3}) \| ([^|]+) \|/gm)];
    const listed = rows.flatMap(([, status, codes = '']) =>
      [...codes.matchAll(/`(\w+)`/g)].map(([, code = '']) => [code, Number(status)] as const),
    );
    const known = Object.entries(KINDS).map(([code, { status }]) => [code, status] as const);
    expect(listed.toSorted()).toEqual(known.toSorted());
  });

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

  // Decision records speak of the code of their day.
  it.each(pages.filter((page) => !page.startsWith('docs/decisions/')))('%s names only files that exist', (page) => {
    const named = [...read(page).matchAll(/`((?:src|test|bench|scripts|docs|catalog)\/[\w./-]+)`/g)];
    expect(named.map(([, path = '']) => path).filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });
});
