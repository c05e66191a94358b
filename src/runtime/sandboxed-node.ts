import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = dirname(import.meta.dirname);
const PACKAGES = 'node_modules';

export interface SandboxedProgram {
  /** The file to run. */
  entry: string;
  /** The package that it uses. */
  packageName: string;
  /** What it may read besides this program's code and packages. */
  readable?: readonly string[];
  heapMegabytes: number;
  /** Sent as JSON. */
  argument: object;
}

/** Arguments for Node to run a program that reads files of strangers: it may read its code, and write and start nothing. */
export function sandboxedNode({ entry, packageName, readable = [], heapMegabytes, argument }: SandboxedProgram) {
  const found = fileURLToPath(import.meta.resolve(packageName));
  const paths = [
    entry,
    SOURCE,
    found.slice(0, found.lastIndexOf(PACKAGES) + PACKAGES.length),
    // The path may be a link, so both it and its target must be readable.
    join(SOURCE, '..', PACKAGES),
    ...readable,
  ];
  return [
    '--permission',
    ...paths.map((path) => `--allow-fs-read=${path}`),
    '--no-warnings',
    `--max-old-space-size=${heapMegabytes}`,
    entry,
    JSON.stringify(argument),
  ];
}
