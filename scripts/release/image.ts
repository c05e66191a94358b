/**
 * Images for containers, assembled from Node's npm package, packages of Debian and the packages of a release. They need neither a registry of
 * images nor a daemon.
 */
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { chmod, link, mkdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { type Owned, tarOf } from './archive.ts';
import { type Cpu, DEBIAN_ARCHITECTURES, installDebian } from './debian.ts';
import { INSTALLED_BOUNDS, install } from './installation.ts';
import { modelNames, product, stage } from './packages.ts';

const USER = 10_001;
const DATA_DIR = '/var/lib/baobab';
const HOME = 'opt/baobab/node_modules';
const OWNED: Record<string, Owned> = {
  tmp: { mode: 0o1777, owner: 0 },
  [DATA_DIR.slice(1)]: { mode: 0o700, owner: USER },
};

const FILES: Record<string, string> = {
  'etc/passwd': `root:x:0:0:root:/:/bin/false\nbaobab:x:${USER}:${USER}:Baobab:${DATA_DIR}:/bin/false\n`,
  'etc/group': `root:x:0:\nbaobab:x:${USER}:\n`,
  // Without it, /etc/hosts would be asked after DNS.
  'etc/nsswitch.conf': 'hosts: files dns\n',
  'etc/os-release': 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Baobab, with libraries of Debian 12"\n',
};
const PROGRAMS: Record<string, string> = {
  'usr/local/bin/baobab': `#!/bin/sh\nexec /usr/local/bin/node /${HOME}/baobab/bin/installed.mjs "$@"\n`,
  // The control socket needs no port and no certificate. Whoever runs it sets a shorter limit.
  'usr/local/bin/baobab-health': `#!/bin/sh
printf 'GET /ready HTTP/1.0\\r\\n\\r\\n' | /bin/nc.openbsd -U -w 30 "\${BAOBAB_DATA_DIR:-${DATA_DIR}}/control.sock" | {
  read -r _ status _
  [ "$status" = 200 ]
}
`,
};

interface Layer {
  /** Of the compressed bytes, which are in the folder of blobs under this name. */
  digest: string;
  size: number;
  /** Of the uncompressed bytes. */
  diffId: string;
}

const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex');

async function writeLayer(root: string, blobs: string): Promise<Layer> {
  const [whole, compressed] = [createHash('sha256'), createHash('sha256')];
  const file = join(blobs, 'unfinished');
  await mkdir(blobs, { recursive: true });
  async function* hashed(source: AsyncIterable<Buffer>, hash: typeof whole) {
    for await (const chunk of source) {
      hash.update(chunk);
      yield chunk;
    }
  }
  await pipeline(
    hashed(tarOf(root, OWNED), whole),
    createGzip(),
    (source) => hashed(source, compressed),
    createWriteStream(file),
  );
  const digest = compressed.digest('hex');
  await rename(file, join(blobs, digest));
  return { digest, size: (await stat(join(blobs, digest))).size, diffId: whole.digest('hex') };
}

async function systemRoot(root: string, cpu: Cpu, work: string): Promise<void> {
  await installDebian(cpu, root, join(work, 'debian'));
  for (const [path, text] of Object.entries({ ...FILES, ...PROGRAMS })) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
    if (path in PROGRAMS) await chmod(join(root, path), 0o755);
  }
  for (const name of ['sh', 'sleep']) await symlink('busybox', join(root, 'usr/bin', name));
  for (const path of Object.keys(OWNED)) await mkdir(join(root, path), { recursive: true });
}

export interface Blob {
  digest: string;
  size: number;
}
const descriptor = (mediaType: string, { digest, size }: Blob) => ({ mediaType, digest: `sha256:${digest}`, size });

/** An archive that both Docker and tools for OCI images load. */
async function writeArchive(
  archive: string,
  blobs: string,
  image: { cpu: Cpu; layers: readonly Layer[]; tag: string; commit: string; createdAt: string },
): Promise<void> {
  const { cpu, layers, tag, commit, createdAt } = image;
  const folder = `${archive}.unpacked`;
  await mkdir(join(folder, 'blobs/sha256'), { recursive: true });
  const json = async (value: object): Promise<Blob> => {
    const text = JSON.stringify(value);
    const digest = sha256(text);
    await writeFile(join(folder, 'blobs/sha256', digest), text);
    return { digest, size: Buffer.byteLength(text) };
  };
  const platform = { architecture: DEBIAN_ARCHITECTURES[cpu], os: 'linux' };
  const labels = {
    'org.opencontainers.image.title': 'Baobab',
    'org.opencontainers.image.version': product.version,
    'org.opencontainers.image.revision': commit,
    'org.opencontainers.image.licenses': product.license,
  };
  const config = await json({
    created: createdAt,
    ...platform,
    config: {
      User: `${USER}:${USER}`,
      ExposedPorts: { '8080/tcp': {} },
      Env: [
        'PATH=/usr/local/bin:/usr/bin:/bin',
        'BAOBAB_HOST=0.0.0.0',
        `BAOBAB_DATA_DIR=${DATA_DIR}`,
        'BAOBAB_LOG_FORMAT=json',
      ],
      Entrypoint: ['/usr/bin/tini', '--', 'baobab'],
      Cmd: ['serve'],
      Volumes: { [DATA_DIR]: {} },
      WorkingDir: DATA_DIR,
      Labels: labels,
      // Docker's addition, in nanoseconds.
      Healthcheck: { Test: ['CMD', 'baobab-health'], Interval: 10e9, Timeout: 5e9, StartPeriod: 60e9 },
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => `sha256:${diffId}`) },
    history: layers.map(() => ({ created: createdAt, created_by: 'npm run release' })),
  });
  const manifest = await json({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: descriptor('application/vnd.oci.image.config.v1+json', config),
    layers: layers.map((layer) => descriptor('application/vnd.oci.image.layer.v1.tar+gzip', layer)),
    annotations: labels,
  });
  const names = { 'org.opencontainers.image.ref.name': tag, 'io.containerd.image.name': `docker.io/library/${tag}` };
  const blob = (digest: string) => `blobs/sha256/${digest}`;
  const files: Record<string, object> = {
    'oci-layout': { imageLayoutVersion: '1.0.0' },
    'index.json': {
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.index.v1+json',
      manifests: [
        { ...descriptor('application/vnd.oci.image.manifest.v1+json', manifest), platform, annotations: names },
      ],
    },
    // How `docker save` writes it.
    'manifest.json': [
      { Config: blob(config.digest), RepoTags: [tag], Layers: layers.map(({ digest }) => blob(digest)) },
    ],
  };
  for (const [name, value] of Object.entries(files)) await writeFile(join(folder, name), JSON.stringify(value));
  for (const { digest } of layers) await link(join(blobs, digest), join(folder, blob(digest)));
  await pipeline(tarOf(folder), createWriteStream(archive));
  await rm(folder, { recursive: true });
}

export interface ImageOptions {
  cpus: readonly Cpu[];
  out: string;
  commit: string;
  createdAt: string;
}

export const IMAGE_TARGETS = ['gateway', 'full'] as const;
export type ImageTarget = (typeof IMAGE_TARGETS)[number];

export interface WrittenImage {
  file: string;
  target: ImageTarget;
  /** Of its layers, compressed. */
  size: number;
  /** Of the layer without system and models, compressed. */
  programSize: number;
  /** What that layer takes on a disk. */
  installedBytes: number;
}

/** Compares sizes with what they may be. Returns them in words; throws when one is too large. */
export function checkImage({ file, target, size, programSize, installedBytes }: WrittenImage): string {
  const sizes: [string, number, number][] = [['installed', installedBytes, INSTALLED_BOUNDS[target]]];
  if (target === 'gateway')
    sizes.push(['compressed', size, 100e6], ['compressed without Node and libraries', programSize, 25e6]);
  return sizes
    .map(([what, bytes, bound]) => {
      const text = `${(bytes / 1e6).toFixed(1)} MB ${what} of at most ${bound / 1e6}`;
      if (bytes > bound) throw new Error(`${file}: ${text}`);
      return text;
    })
    .join(', ');
}

export async function writeImages(
  targets: readonly ImageTarget[],
  { cpus, out, commit, createdAt }: ImageOptions,
): Promise<WrittenImage[]> {
  const work = join(out, '.stage/images');
  const blobs = join(work, 'blobs');
  const written: WrittenImage[] = [];
  let models: Layer | undefined;
  async function modelsLayer(): Promise<Layer> {
    const root = join(work, 'models');
    for (const name of await modelNames()) await stage(name, join(root, HOME, '@baobab', name), commit);
    return writeLayer(root, blobs);
  }
  for (const cpu of cpus) {
    const system = join(work, cpu, 'system');
    await systemRoot(system, cpu, join(work, cpu));
    let base: Layer | undefined;
    for (const target of targets) {
      const root = join(work, cpu, target);
      const folder = join(root, HOME);
      await mkdir(dirname(folder), { recursive: true });
      const options = { cpu, withEngines: target === 'full', commit };
      const installedBytes = await install(
        { folder, runtime: join(system, 'usr/local') },
        options,
        join(work, cpu, `${target}-npm`),
      );
      base ??= await writeLayer(system, blobs);
      const program = await writeLayer(root, blobs);
      const layers = [base, program];
      if (target === 'full') {
        models ??= await modelsLayer();
        layers.push(models);
      }
      const suffix = target === 'gateway' ? '-gateway' : '';
      const file = `baobab-${product.version}${suffix}-linux-${DEBIAN_ARCHITECTURES[cpu]}.oci.tar`;
      const tag = `baobab:${product.version}${suffix}`;
      await writeArchive(join(out, file), blobs, { cpu, layers, tag, commit, createdAt });
      const size = layers.reduce((sum, layer) => sum + layer.size, 0);
      written.push({ file, target, size, programSize: program.size, installedBytes });
    }
  }
  await rm(work, { recursive: true });
  return written;
}
