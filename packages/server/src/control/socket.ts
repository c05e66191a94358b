import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Operating systems allow about a hundred bytes for the path of a local socket. */
const MAX_PATH_BYTES = 100;

/** Not from `os.userInfo()`, which fails in containers whose user is a number without a name. */
export const userId = (): number => process.getuid?.() ?? -1;

/** The running server cannot be asked. */
export class ControlError extends Error {
  override readonly name = 'ControlError';
}

/** The socket between the operator's commands and the running server. File permissions guard it. */
export function controlSocketPath(dataDir: string): string {
  if (process.platform === 'win32')
    return `\\\\.\\pipe\\baobab-${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`;
  const path = join(dataDir, 'control.sock');
  if (Buffer.byteLength(path) <= MAX_PATH_BYTES) return path;
  const name = createHash('sha256').update(dataDir).digest('hex').slice(0, 16);
  return join(tmpdir(), `baobab-${userId()}`, `${name}.sock`);
}
