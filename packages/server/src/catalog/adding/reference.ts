import { isAbsolute, resolve } from 'node:path';

/** What `models add` was given. */
export type ModelLocation =
  | { kind: 'hub'; repo: string; revision: string; file: string | undefined }
  | { kind: 'path'; path: string }
  | { kind: 'upstream'; url: string };

export class AddError extends Error {
  override readonly name = 'AddError';
}

const HUB = /^hf:([^/:@\s]+\/[^/:@\s]+)(?::([^@\s]+))?(?:@([^@\s]+))?$/;

const HUB_HOSTS = ['huggingface.co', 'www.huggingface.co', 'hf.co'];
/** The page of a model, of a folder in it, or of one file. */
const HUB_PAGE = /^\/([^/]+\/[^/]+)(?:\/(tree|blob|resolve)\/([^/]+)(?:\/(.+))?)?$/;

/** An address that was copied from the browser. */
function parseHubPage({ hostname, pathname }: URL): ModelLocation | undefined {
  if (!HUB_HOSTS.includes(hostname)) return undefined;
  const [, repo, page, revision = 'main', path] = HUB_PAGE.exec(pathname.replace(/\/+$/, '')) ?? [];
  if (repo === undefined) throw new AddError(`${hostname}${pathname} is not the page of a model; use hf:owner/repo`);
  return { kind: 'hub', repo, revision, file: page === 'tree' ? undefined : path };
}

/** `hf:owner/repo[:Q4_K_M or file.gguf][@revision]` or its page on the hub, a path, or the address of a server with `/v1`. */
export function parseLocation(text: string, workingDirectory: string): ModelLocation {
  if (/^https?:\/\//.test(text)) {
    if (!URL.canParse(text)) throw new AddError(`'${text}' is not an address such as http://127.0.0.1:8000/v1`);
    const address = new URL(text);
    const page = parseHubPage(address);
    if (page !== undefined) return page;
    const { origin, pathname, username, password, search } = address;
    // Silently leaving them out would add a model that cannot be used.
    if (username !== '' || password !== '') {
      throw new AddError(
        'the address must not contain a user or password; put a key into a file and use --upstream-key-file',
      );
    }
    if (search !== '') throw new AddError('the address must not contain a query (the part from ? on)');
    const path = pathname.replace(/\/+$/, '');
    return { kind: 'upstream', url: `${origin}${path === '' ? '/v1' : path}` };
  }
  if (text.startsWith('hf:')) {
    const [, repo, file, revision = 'main'] = HUB.exec(text) ?? [];
    if (repo === undefined) throw new AddError(`'${text}' is not of the form hf:Qwen/Qwen3-4B-GGUF:Q4_K_M`);
    return { kind: 'hub', repo, revision, file };
  }
  return { kind: 'path', path: isAbsolute(text) ? text : resolve(workingDirectory, text) };
}

/** A slug from names that other places use: `Qwen/Qwen3-4B` → `qwen/qwen3-4b`. */
export function slugFrom(provider: string, name: string): string {
  const part = (text: string) =>
    text
      .toLowerCase()
      .replace(/[^a-z0-9._-]+/g, '-')
      .replace(/^[^a-z0-9]+/, '')
      .slice(0, 90)
      .replace(/[^a-z0-9]+$/, '');
  return `${part(provider) || 'local'}/${part(name) || 'model'}`;
}
