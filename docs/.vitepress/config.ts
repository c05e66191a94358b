import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { defineConfig, type MarkdownOptions } from 'vitepress';

/** Where the server serves the site. */
const BASE = '/docs/guide/';
const ROOT = join(import.meta.dirname, '../..');

/** The page of the site that a file of the repository becomes, such as `models/chat-mini` of `models/chat-mini/README.md`. */
function pageOf(file: string): string | undefined {
  if (file === 'README.md') return 'quick-start';
  if (file === 'docs/README.md') return 'index';
  const [, name] =
    /^docs\/((?:decisions\/)?[\w.-]+)\.md$/.exec(file) ??
    /^([A-Z]+)\.md$/.exec(file) ??
    /^(models\/[\w-]+|training)\/README\.md$/.exec(file) ??
    [];
  return name?.toLowerCase();
}

const files = globSync(['*.md', '{docs,models,training}/**/*.md'], { cwd: ROOT });
const pages = new Map(files.map((file) => [file, pageOf(file)] as const).filter(([, page]) => page !== undefined));
const fileOf = new Map([...pages].map(([file, page]) => [`${page}.md`, file]));

/** The index of all pages, grouped by reader, is the navigation too. */
function navigation() {
  const groups = readFileSync(join(ROOT, 'docs/README.md'), 'utf8').split(/^## /m).slice(1);
  return groups.map((group) => ({
    text: group.slice(0, group.indexOf('\n')),
    collapsed: false,
    items: [...group.matchAll(/^- \[([^\]]+)\]\(([^)]+\.md)\)/gm)].map(([, text = '', target = '']) => ({
      text,
      link: `/${pages.get(posix.join('docs', target))}`,
    })),
  }));
}

/** As GitHub makes anchors of headings, so that links work in both places. */
const slugify = (heading: string): string =>
  heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');

/** Links lead to files of the repository. Here they lead to their pages; those to files that are no pages are only text. */
const linkToPages: NonNullable<MarkdownOptions['config']> = (md) => {
  const { link_open: toPage } = md.renderer.rules;
  md.renderer.rules.link_open = (tokens, index, options, env, self) => {
    const [token] = tokens.slice(index);
    const [, path = '', hash = ''] = /^([^#]*)(.*)$/.exec(token?.attrGet('href') ?? '') ?? [];
    if (!token || !toPage || path === '' || /^[a-z]+:/.test(path))
      return toPage?.(tokens, index, options, env, self) ?? '';
    const file = posix.join(posix.dirname(fileOf.get(env.relativePath) ?? ''), path);
    const page = pages.get(file);
    if (file === 'docs/openapi.json') {
      token.attrSet('href', '/docs');
      token.attrSet('target', '_self');
      return self.renderToken(tokens, index, options);
    }
    if (page === undefined && existsSync(join(ROOT, file))) {
      const end = tokens.slice(index).find(({ type }) => type === 'link_close');
      for (const each of [token, end]) if (each) each.tag = 'span';
      token.attrs = [['title', `${file} of the repository`]];
      return self.renderToken(tokens, index, options);
    }
    token.attrSet('href', page === undefined ? path : `/${page === 'index' ? '' : page}${hash}`);
    return toPage(tokens, index, options, env, self);
  };
};

export default defineConfig({
  title: 'Baobab',
  description: 'Host open-weights models yourself behind the API that your programs already speak.',
  lang: 'en',
  base: BASE,
  srcDir: ROOT,
  cacheDir: join(ROOT, 'node_modules/.cache/vitepress'),
  srcExclude: ['{bench,data,deploy,dist,guide*,packages,scripts,test,vendor}/**', '.*/**', '*/.*/**'],
  rewrites: Object.fromEntries([...pages].map(([file, page]) => [file, `${page}.md`])),
  cleanUrls: true,
  metaChunk: true,
  // One after the other: the search index has its pages in the order in which they are read, and a release must be the same each time.
  buildConcurrency: 1,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${BASE}mark.svg` }]],
  markdown: { anchor: { slugify }, config: linkToPages, theme: { light: 'github-light', dark: 'github-dark' } },
  // Scripts of pages become files: the server's policy for pages allows no others.
  async transformHtml(html, _, { siteConfig: { outDir } }) {
    const scripts: Promise<void>[] = [];
    const page = html.replaceAll(/<script id="[\w-]+">([^<]+)<\/script>/g, (_, code: string) => {
      const name = `assets/inline.${createHash('sha256').update(code).digest('hex').slice(0, 8)}.js`;
      scripts.push(mkdir(join(outDir, 'assets'), { recursive: true }).then(() => writeFile(join(outDir, name), code)));
      return `<script src="${BASE}${name}"></script>`;
    });
    await Promise.all(scripts);
    return page;
  },
  themeConfig: {
    logo: '/mark.svg',
    outline: [2, 3],
    sidebar: [{ items: [{ text: 'Quick start', link: '/quick-start' }] }, ...navigation()],
    // Records speak of the code of their day: they are reached from the pages that name them.
    search: {
      provider: 'local',
      options: {
        _render: (source, env, md) => (env.relativePath.includes('decisions/') ? '' : md.render(source, env)),
      },
    },
  },
  vite: { publicDir: join(import.meta.dirname, 'public') },
});
