import { getSystemErrorMap } from 'node:util';

/** Where the words of libuv would puzzle an operator, and codes that are not its own. */
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user has no permission',
  EADDRINUSE: 'the port is in use',
  EAI_AGAIN: 'the host name could not be resolved',
  EBUSY: 'another program uses it',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was cut',
  EDQUOT: 'the quota of this user is used up',
  EHOSTUNREACH: 'there is no route to the host',
  EIO: 'the disk failed',
  EISDIR: 'it is a folder, not a file',
  ELOOP: 'its links lead back to themselves',
  ENAMETOOLONG: 'the name is too long',
  ENETUNREACH: 'there is no network',
  ENOENT: 'there is no such file or folder',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'a part of the path is not a folder',
  ENOTFOUND: 'the host name could not be resolved',
  EPERM: 'the system does not permit it',
  EPIPE: 'the connection was cut',
  EROFS: 'the disk is read-only',
  ETIMEDOUT: 'connecting took too long',
  UND_ERR_CONNECT_TIMEOUT: 'connecting took too long',
  UND_ERR_SOCKET: 'the connection was cut',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not trusted here',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not trusted here',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not trusted here',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
};

const TIMEOUT_NAMES: readonly string[] = ['AbortError', 'TimeoutError'];
const MOST_CAUSES = 5;

/** An error and what caused it: libraries hide the code of the system behind their own errors. */
function causesOf(error: unknown): (Error & { code?: unknown; errno?: unknown })[] {
  const causes: Error[] = [];
  for (let current = error; current instanceof Error && causes.length < MOST_CAUSES; current = current.cause) {
    causes.push(current);
  }
  return causes;
}

/** The code of the system, such as ENOENT. Undefined: the error is not of the system. */
export const systemCode = (error: unknown): string | undefined =>
  causesOf(error)
    .map(({ code }) => code)
    .find((code) => typeof code === 'string' && (Object.hasOwn(REASONS, code) || /^E[A-Z0-9]+$/.test(code))) as
    | string
    | undefined;

/** Why the system or a connection failed, in words without its codes. Other errors speak for themselves. */
export function systemReason(error: unknown): string {
  for (const cause of causesOf(error)) {
    const { code, errno, name } = cause;
    if (typeof code === 'string' && Object.hasOwn(REASONS, code)) return REASONS[code] as string;
    const [, text] = (typeof errno === 'number' ? getSystemErrorMap().get(errno) : undefined) ?? [];
    if (text !== undefined) return text;
    if (TIMEOUT_NAMES.includes(name)) return 'it did not answer in time';
  }
  const last = causesOf(error).at(-1);
  return last?.message || last?.name || 'the reason is unknown';
}
