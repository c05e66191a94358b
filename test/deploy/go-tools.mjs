// Plain JavaScript for any Node from 20 on: .ci/run builds the tools while the tests run, before anything is installed.
import { spawnSync } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What is downloaded or built once. */
export const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'baobab');

/** In the order in which they are worth their time. */
export const GO_TOOLS = {
  /** Reads files with the library of Docker Compose. */
  'compose-go': { from: 'github.com/compose-spec/compose-go/v2/cmd', version: 'v2.16.2' },
  helm: { from: 'helm.sh/helm/v3/cmd/helm', version: 'v3.22.0' },
  kubeconform: { from: 'github.com/yannh/kubeconform/cmd/kubeconform', version: 'v0.8.0' },
};

/**
 * The path of a tool, or why it is missing. It is built once and kept; with DEPLOY_TOOLS=cached only if it was built before.
 * @param {keyof typeof GO_TOOLS} name
 * @returns {{ path: string, missing?: string }}
 */
export function buildGoTool(name) {
  const { from, version } = GO_TOOLS[name];
  const folder = join(CACHE, `${name}-${version}`);
  const path = join(folder, basename(from));
  if (existsSync(path)) return { path };
  if (process.env.DEPLOY_TOOLS === 'cached') return { path, missing: `${path} is not built yet` };
  const env = { ...process.env, GOBIN: folder };
  const { error, status, stderr } = spawnSync('go', ['install', '-ldflags=-s -w', `${from}@${version}`], { env });
  if (error !== undefined) return { path, missing: `there is no ${path}, and no Go to build it with` };
  if (status === 0) return { path };
  return { path, missing: `${name} ${version} could not be built: ${String(stderr).trim().split('\n').at(-1)}` };
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  for (const name of Object.keys(GO_TOOLS)) {
    const { missing } = buildGoTool(/** @type {keyof typeof GO_TOOLS} */ (name));
    if (missing !== undefined) process.stderr.write(`${missing}\n`);
  }
}
