// Prints a CycloneDX software bill of materials of what the service runs on, made from the lock file alone:
//   npm run --silent sbom > sbom.json
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

interface DebianPackage {
  name: string;
  version: string;
  architecture: string;
  /** Of the file. */
  sha256: string;
}

interface LockedPackage {
  version?: string;
  integrity?: string;
  license?: string;
  dev?: boolean;
  optional?: boolean;
  link?: boolean;
}

const ROOT = join(import.meta.dirname, '..');
const readJson = (name: string) => JSON.parse(readFileSync(join(ROOT, name), 'utf8'));

/** `node_modules/a/node_modules/@b/c` → `@b/c` */
const nameOf = (path: string): string => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

const purlOf = (name: string, version: string): string => `pkg:npm/${name.replace('@', '%40')}@${version}`;

/** `sha512-<base64>` → algorithm and hex, as CycloneDX wants them. */
function hashOf(integrity: string) {
  const [algorithm = '', content = ''] = integrity.split('-', 2);
  return {
    alg: algorithm.toUpperCase().replace('SHA', 'SHA-'),
    content: Buffer.from(content, 'base64').toString('hex'),
  };
}

/** Licences that are not a single identifier of SPDX are written as an expression. */
const licenceOf = (licence: string) =>
  /^[A-Za-z0-9.+-]+$/.test(licence) ? { license: { id: licence } } : { expression: licence };

/** Images have packages of Debian too. */
export function billOfMaterials(
  lock: { packages: Record<string, LockedPackage> },
  product: { name: string; version: string },
  debian: readonly DebianPackage[] = [],
) {
  const components = new Map<string, object>();
  for (const [path, { version, integrity, license, dev, optional, link }] of Object.entries(lock.packages)) {
    if (!path.includes('node_modules/') || version === undefined || dev || link) continue;
    const name = nameOf(path);
    const purl = purlOf(name, version);
    components.set(purl, {
      type: 'library',
      'bom-ref': purl,
      name,
      version,
      purl,
      scope: optional ? 'optional' : 'required',
      ...(license === undefined ? {} : { licenses: [licenceOf(license)] }),
      ...(integrity === undefined ? {} : { hashes: [hashOf(integrity)] }),
    });
  }
  for (const { name, version, architecture, sha256 } of debian) {
    const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`;
    const hashes = [{ alg: 'SHA-256', content: sha256 }];
    components.set(purl, { type: 'library', 'bom-ref': purl, name, version, purl, scope: 'optional', hashes });
  }
  const { name, version } = product;
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { type: 'application', 'bom-ref': name, name, version } },
    components: [...components.keys()].toSorted().map((purl) => components.get(purl)),
  };
}

if (import.meta.main) {
  process.stdout.write(
    `${JSON.stringify(billOfMaterials(readJson('package-lock.json'), readJson('package.json')), null, 2)}\n`,
  );
}
