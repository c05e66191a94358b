/** A file of a project, as a Python package index lists it. */
export interface IndexFile {
  name: string;
  url: string;
}

/** PEP 691 in either form; plain HTML for the many indexes that know nothing else. */
export const SIMPLE_ACCEPT =
  'application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1';

const ENTITIES: Record<string, string> = { amp: '&', quot: '"', apos: "'", lt: '<', gt: '>' };

const unescapeHtml = (text: string): string =>
  text.replace(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (whole, decimal, hex, name) => {
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
    if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
    return ENTITIES[name.toLowerCase()] ?? whole;
  });

/** The files on a project's page. `pageUrl` resolves relative links. */
export function parseSimplePage(body: string, contentType: string, pageUrl: string): IndexFile[] {
  const files = contentType.includes('json') ? filesOfJson(body) : filesOfHtml(body);
  return files.flatMap(({ name, url }) => {
    const resolved = URL.parse(url, pageUrl);
    if (resolved === null || !/^https?:$/.test(resolved.protocol)) return [];
    // The fragment is the hash of the archive, which is not part of the address.
    resolved.hash = '';
    return [{ name, url: resolved.href }];
  });
}

function filesOfJson(body: string): IndexFile[] {
  const { files } = JSON.parse(body) as { files?: { filename?: unknown; url?: unknown }[] };
  return (files ?? []).flatMap(({ filename, url }) =>
    typeof filename === 'string' && typeof url === 'string' ? [{ name: filename, url }] : [],
  );
}

function filesOfHtml(body: string): IndexFile[] {
  return [...body.matchAll(/<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)')[^>]*>([^<]*)<\/a>/gi)].map(
    ([, double, single, text = '']) => ({
      name: unescapeHtml(text).trim(),
      url: unescapeHtml(double ?? single ?? ''),
    }),
  );
}

/** PEP 503. */
export const normalizedName = (name: string): string => name.toLowerCase().replace(/[-_.]+/g, '-');

/** The wheel of a version: the one for every platform, or the first by name. */
export function wheelOf(files: readonly IndexFile[], packageName: string, version: string): IndexFile | undefined {
  const wheels = files.filter(({ name }) => {
    const [distribution, wheelVersion] = name.endsWith('.whl') ? name.split('-') : [];
    return normalizedName(distribution ?? '') === normalizedName(packageName) && wheelVersion === version;
  });
  wheels.sort((left, right) => (left.name < right.name ? -1 : 1));
  return wheels.find(({ name }) => name.endsWith('-none-any.whl')) ?? wheels[0];
}
