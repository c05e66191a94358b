/**
 * Writes a release into `dist/`: npm packages for this platform, a bill of materials and checksums. The same commit makes the same bytes.
 *
 *   npm run release -- [--images] [--bundle all|gateway|MODEL,…] [--key FILE]
 *
 * `--images` adds images for containers, `--bundle` a file that installs without a network: with engines and all or some of Baobab's own models, or
 * a gateway. `--key` names an Ed25519 key in PEM, which signs the checksums.
 */
import { execFileSync } from 'node:child_process';
import { createHash, createPrivateKey, sign } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { buildDocs } from './docs.ts';
import { writeBundle } from './release/bundle.ts';
import { type Cpu, DEBIAN_ARCHITECTURES, debianPackages } from './release/debian.ts';
import { checkImage, IMAGE_TARGETS, writeImages } from './release/image.ts';
import { GATEWAY, lock, modelNames, pack, product, ROOT, STAGES } from './release/packages.ts';
import { billOfMaterials } from './sbom.ts';

/** What a release must not outgrow, in bytes: the packages of a server without engines, and all but the models. */
export const BOUNDS = { gateway: 25e6, engines: 200e6 };

const CPUS = Object.keys(DEBIAN_ARCHITECTURES) as Cpu[];
const say = (line: string) => process.stdout.write(`${line}\n`);
const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);

/** `SHA256SUMS` as `sha256sum` writes it, and its signature. */
export async function writeChecksums(out: string, files: readonly string[], key?: string): Promise<void> {
  let sums = '';
  for (const file of files.toSorted()) {
    const hash = createHash('sha256');
    await pipeline(createReadStream(join(out, file)), hash);
    sums += `${hash.digest('hex')}  ${file}\n`;
  }
  await writeFile(join(out, 'SHA256SUMS'), sums);
  if (key === undefined) return;
  const privateKey = createPrivateKey(await readFile(key));
  if (privateKey.asymmetricKeyType !== 'ed25519') throw new Error(`${key} is no Ed25519 key`);
  await writeFile(join(out, 'SHA256SUMS.sig'), sign(null, Buffer.from(sums), privateKey));
}

function checkBound(what: string, bytes: number, bound: number): void {
  say(`${what}: ${megabytes(bytes)} MB of at most ${bound / 1e6}`);
  if (bytes > bound) process.exitCode = 1;
}

interface ReleaseOptions {
  key?: string | undefined;
  images?: boolean | undefined;
  bundle?: string | undefined;
}

async function release({ key, images = false, bundle }: ReleaseOptions): Promise<void> {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  if (git('status', '--porcelain') !== '')
    throw new Error('Commit or remove what git status shows: a release is made of a commit');
  const models = await modelNames();
  const chosen = bundle === 'gateway' ? undefined : bundle === 'all' ? models : bundle?.split(',');
  const unknown = chosen?.find((name) => !models.includes(name));
  if (unknown !== undefined) throw new Error(`--bundle names ${unknown}, which is none of ${models.join(', ')}`);
  const commit = git('rev-parse', 'HEAD');
  const out = join(ROOT, 'dist');
  await rm(out, { recursive: true, force: true });
  await buildDocs();
  const files: string[] = [];
  const add = async (file: string) => {
    const { size } = await stat(join(out, file));
    say(`${megabytes(size).padStart(6)} MB  ${file}`);
    files.push(file);
    return size;
  };
  const total = { gateway: 0, engines: 0 };
  for (const name of [...GATEWAY, 'engines', ...models]) {
    const size = await add(await pack(name, out, commit));
    if (GATEWAY.includes(name)) total.gateway += size;
    if (name in STAGES) total.engines += size;
  }
  checkBound('packages of a gateway', total.gateway, BOUNDS.gateway);
  checkBound('packages with engines', total.engines, BOUNDS.engines);
  if (images) {
    const createdAt = new Date(git('show', '--no-patch', '--format=%cI')).toISOString();
    for (const image of await writeImages(IMAGE_TARGETS, { cpus: CPUS, out, commit, createdAt })) {
      await add(image.file);
      say(`        ${checkImage(image)}`);
    }
  }
  if (bundle !== undefined) await add(await writeBundle({ cpu: process.arch as Cpu, out, commit, models: chosen }));
  await rm(join(out, '.stage'), { recursive: true });
  const debian = images ? (await Promise.all(CPUS.map(debianPackages))).flat() : [];
  const bill = `baobab-${product.version}.sbom.json`;
  await writeFile(join(out, bill), `${JSON.stringify(billOfMaterials(lock as never, product, debian), null, 2)}\n`);
  files.push(bill);
  await writeChecksums(out, files, key);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { key: { type: 'string' }, images: { type: 'boolean' }, bundle: { type: 'string' } },
  });
  await release(values);
}
