import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { build, type Metafile } from 'esbuild';

const CONSOLE = import.meta.dirname;
/** Where the server serves the console. Addresses in the page start with it. */
const CONSOLE_PATH = '/console';

export interface ConsoleFile {
  /** Relative to the folder: `index.html`, or `assets/` with a content hash in the name. */
  path: string;
  bytes: number;
  gzipBytes: number;
}

const brotli = promisify(brotliCompress);
const zip = promisify(gzip);

/** The first script and its static imports, which the page loads before anything else. */
function firstScripts(outputs: Metafile['outputs']): string[] {
  const entry = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint?.endsWith('app/main.tsx'));
  if (entry === undefined) throw new Error('the console bundle has no entry script');
  const [path, { imports }] = entry;
  return [path, ...imports.filter(({ kind }) => kind === 'import-statement').map(({ path: imported }) => imported)];
}

/** Writes a file, and compressed next to it as `.br` and `.gz`. Returns the size of the latter. */
export async function writeCompressed(target: string, content: Buffer): Promise<number> {
  const [small, smaller] = await Promise.all([
    zip(content, { level: 9 }),
    brotli(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
  ]);
  await Promise.all([writeFile(target, content), writeFile(`${target}.gz`, small), writeFile(`${target}.br`, smaller)]);
  return small.length;
}

/**
 * Bundles the console into `outDir`: `index.html`, hashed files under `assets/`, and a `.br` and `.gz` next to each.
 * An earlier build in the same folder is replaced.
 */
export async function buildConsole(outDir: string): Promise<ConsoleFile[]> {
  const { metafile, outputFiles } = await build({
    absWorkingDir: CONSOLE,
    entryPoints: ['app/main.tsx', 'styles/main.css'],
    outdir: 'assets',
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    bundle: true,
    splitting: true,
    minify: true,
    write: false,
    metafile: true,
    format: 'esm',
    target: ['es2022'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    logLevel: 'silent',
  });
  const [script = '', ...preloads] = firstScripts(metafile.outputs).map((path) => basename(path));
  const style = Object.keys(metafile.outputs).find((path) => path.endsWith('.css')) ?? '';
  const asset = (name: string) => `${CONSOLE_PATH}/assets/${basename(name)}`;
  const template = await readFile(join(CONSOLE, 'index.html'), 'utf8');
  const page = template
    .replace('%STYLE%', asset(style))
    .replace('%SCRIPT%', asset(script))
    .replace('%PRELOADS%', preloads.map((name) => `<link rel="modulepreload" href="${asset(name)}">`).join('\n    '));

  const files = [
    { path: 'index.html', content: Buffer.from(page) },
    ...outputFiles.map(({ path, contents }) => ({ path: `assets/${basename(path)}`, content: Buffer.from(contents) })),
  ];
  await rm(outDir, { recursive: true, force: true });
  await mkdir(join(outDir, 'assets'), { recursive: true });
  return Promise.all(
    files.map(async ({ path, content }) => ({
      path,
      bytes: content.length,
      gzipBytes: await writeCompressed(join(outDir, path), content),
    })),
  );
}
