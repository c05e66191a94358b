/**
 * Programs and shared libraries of Debian for images. `debian.json` pins them by their SHA-256, so that a commit always makes the same image;
 * `node scripts/release/debian.ts` takes the versions of today.
 */
import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { glob, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const MIRROR = 'https://deb.debian.org';
const ARCHIVES = ['debian/dists/bookworm', 'debian-security/dists/bookworm-security'];
const PINS = join(import.meta.dirname, 'debian.json');

/** What Node and engines need, certificates, and a shell, `tini` and `nc` to start and to ask the server. */
const NAMES = [
  ...['libc6', 'libgcc-s1', 'libstdc++6', 'ca-certificates'],
  ...['busybox-static', 'tini', 'netcat-openbsd', 'libbsd0', 'libmd0'],
];
export const DEBIAN_ARCHITECTURES = { x64: 'amd64', arm64: 'arm64' } as const;
export type Cpu = keyof typeof DEBIAN_ARCHITECTURES;

export interface DebianPackage {
  name: string;
  version: string;
  architecture: string;
  path: string;
  sha256: string;
}

export const debianPackages = async (cpu: Cpu): Promise<DebianPackage[]> =>
  JSON.parse(await readFile(PINS, 'utf8'))[DEBIAN_ARCHITECTURES[cpu]];

/** All but libraries, the four programs, certificates and licences. */
const KEPT = [
  /^(usr\/)?lib(64)?\/.*\.so(\.[\d.]+)?$/,
  /^(usr\/)?bin\/(busybox|tini|nc\.openbsd)$/,
  /^usr\/share\/ca-certificates\/mozilla\//,
  /^usr\/share\/doc\/[^/]+\/copyright$/,
];
/** Conversions between character sets and a debugger's hooks. */
const DROPPED = /\/(gconv|audit)\//;

const MERGED = /^(bin|lib|lib64)\//;

async function fetchPackage({ path, sha256, name }: DebianPackage, file: string): Promise<void> {
  const response = await fetch(`${MIRROR}/${path}`);
  if (!response.ok) {
    throw new Error(
      `${MIRROR}/${path} answers ${response.status}. Debian may have a newer ${name}: run 'node scripts/release/debian.ts' and commit what it writes`,
    );
  }
  const bytes = Buffer.from(await response.arrayBuffer());
  const found = createHash('sha256').update(bytes).digest('hex');
  if (found !== sha256) throw new Error(`${path} has the SHA-256 ${found} in the place of ${sha256}`);
  await writeFile(file, bytes);
}

/** Unpacks the packages into the root of an image. */
export async function installDebian(cpu: Cpu, root: string, work: string): Promise<void> {
  await mkdir(work, { recursive: true });
  // Scanners of images look for packages here.
  const status = join(root, 'var/lib/dpkg/status.d');
  await mkdir(status, { recursive: true });
  for (const each of await debianPackages(cpu)) {
    const [file, unpacked] = [join(work, `${each.name}.deb`), join(work, each.name)];
    await fetchPackage(each, file);
    execFileSync('dpkg-deb', ['--extract', file, unpacked]);
    await writeFile(join(status, each.name), execFileSync('dpkg-deb', ['--field', file]));
    for await (const entry of glob('**/*', { cwd: unpacked, withFileTypes: true })) {
      const source = join(entry.parentPath, entry.name);
      const path = source.slice(unpacked.length + 1);
      if (entry.isDirectory() || !KEPT.some((pattern) => pattern.test(path)) || DROPPED.test(path)) continue;
      const target = join(root, path.replace(MERGED, 'usr/$1/'));
      await mkdir(dirname(target), { recursive: true });
      await rename(source, target);
    }
  }
  // As Debian itself has it, and as programs that look for libraries expect.
  for (const name of ['bin', 'lib', 'lib64']) {
    if (existsSync(join(root, 'usr', name))) await symlink(`usr/${name}`, join(root, name));
  }
  const certificates = await Array.fromAsync(glob('usr/share/ca-certificates/mozilla/*.crt', { cwd: root }));
  const texts = await Promise.all(certificates.toSorted().map((path) => readFile(join(root, path), 'utf8')));
  await mkdir(join(root, 'etc/ssl/certs'), { recursive: true });
  await writeFile(join(root, 'etc/ssl/certs/ca-certificates.crt'), texts.join(''));
  await rm(join(root, 'usr/share/ca-certificates'), { recursive: true });
}

async function newestPackages(architecture: string): Promise<DebianPackage[]> {
  const found = new Map<string, DebianPackage>();
  for (const archive of ARCHIVES) {
    const response = await fetch(`${MIRROR}/${archive}/main/binary-${architecture}/Packages.xz`);
    if (!response.ok) throw new Error(`${response.url} answers ${response.status}`);
    const input = Buffer.from(await response.arrayBuffer());
    const list = execFileSync('xz', ['--decompress', '--stdout'], { input, encoding: 'utf8', maxBuffer: 2 ** 30 });
    for (const paragraph of list.split('\n\n')) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(paragraph)?.[1] ?? '';
      const name = field('Package');
      if (!NAMES.includes(name)) continue;
      const version = field('Version');
      const known = found.get(name);
      const isNewer = async (than: string) =>
        promisify(execFile)('dpkg', ['--compare-versions', version, 'gt', than]).then(
          () => true,
          () => false,
        );
      if (known !== undefined && !(await isNewer(known.version))) continue;
      const path = `${archive.slice(0, archive.indexOf('/'))}/${field('Filename')}`;
      found.set(name, { name, version, architecture: field('Architecture'), path, sha256: field('SHA256') });
    }
  }
  return NAMES.map((name) => {
    const each = found.get(name);
    if (each === undefined) throw new Error(`Debian has no ${name} for ${architecture}`);
    return each;
  });
}

if (import.meta.main) {
  const pins: Record<string, DebianPackage[]> = {};
  for (const architecture of Object.values(DEBIAN_ARCHITECTURES))
    pins[architecture] = await newestPackages(architecture);
  await writeFile(PINS, `${JSON.stringify(pins, null, 2)}\n`);
}
