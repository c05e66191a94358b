// Reduces package.json and the lock file to what one machine needs, so that `npm ci` installs it without asking the registry for metadata.
// Plain JavaScript for any Node from 20 on.

/** npm reads this host in a lock file as "the configured registry". */
const CONFIGURED_REGISTRY = 'https://registry.npmjs.org';

const asList = (value) => (value === undefined ? [] : [value].flat());

function allows(value, wanted) {
  const list = asList(value);
  if (list.includes(`!${wanted}`)) return false;
  return list.every((name) => name.startsWith('!')) || list.includes(wanted) || list.includes('any');
}

const fits = ({ os, cpu, libc }, machine) =>
  allows(os, machine.os) && allows(cpu, machine.cpu) && (machine.os !== 'linux' || allows(libc, machine.libc));

/** Finds a package as Node does: in the dependent's own node_modules, then in those above it. */
function locate(packages, dependent, name) {
  for (let base = dependent; ; base = base.slice(0, base.lastIndexOf('node_modules/')).replace(/\/$/, '')) {
    const path = base === '' ? `node_modules/${name}` : `${base}/node_modules/${name}`;
    if (path in packages) return path;
    if (base === '') return undefined;
  }
}

/**
 * The optional packages to install, as name → path. Undefined when the lock file has none for this machine although it may exist: not every
 * registry has the packages of all platforms, so the lock file may lack some.
 */
function chooseOptional(packages, dependent, names, machine) {
  const paths = names.map((name) => [name, locate(packages, dependent, name)]);
  const locked = paths.filter(([, path]) => path !== undefined);
  const fitting = locked.filter(([, path]) => !packages[path].link && fits(packages[path], machine));
  if (locked.length < names.length && !fitting.some(([, path]) => packages[path].os)) return undefined;
  // node-llama-cpp's packages for ARM claim to be for x64 too: take those for this processor alone where there are some.
  const scopeOf = ([name]) => name.split('/')[0];
  const isExact = ([, path]) => asList(packages[path].cpu).length === 1;
  const exactScopes = new Set(fitting.filter(isExact).map(scopeOf));
  return fitting.filter((choice) => isExact(choice) || !exactScopes.has(scopeOf(choice)));
}

function tarballOf(path, { name = path.slice(path.lastIndexOf('node_modules/') + 13), version }) {
  return `${CONFIGURED_REGISTRY}/${name}/-/${name.split('/').pop()}-${version}.tgz`;
}

/** The packages of this repository: pairs of name and folder. Node finds them through links in node_modules. */
export const workspacesOf = ({ packages }) =>
  Object.entries(packages)
    .filter(([, { link, resolved }]) => link && resolved.startsWith('packages/'))
    .map(([path, { resolved }]) => [path.slice('node_modules/'.length), resolved]);

/** One manifest with what all packages of this repository need, as if it were a single package. */
function mergeWorkspaces({ workspaces: _, ...manifest }, lock) {
  const workspaces = workspacesOf(lock);
  const own = new Set(workspaces.map(([name]) => name));
  const merge = (kind) => {
    const all = Object.assign({}, manifest[kind], ...workspaces.map(([, folder]) => lock.packages[folder][kind]));
    return Object.fromEntries(Object.entries(all).filter(([name]) => !own.has(name)));
  };
  return { ...manifest, dependencies: merge('dependencies'), optionalDependencies: merge('optionalDependencies') };
}

/**
 * Returns the reduced `manifest` and `lock`, or undefined where the lock file does not say all that this machine needs. `machine` has npm's
 * `os`, `cpu` and `libc`.
 */
export function planInstall(manifest, lock, machine, withTools) {
  // A package that needs another version than its siblings has a folder of its own, which this plan does not fill.
  if (Object.keys(lock.packages).some((path) => path.startsWith('packages/') && path.includes('/node_modules/'))) {
    return undefined;
  }
  const planned = {};
  const queue = [''];
  const seen = new Set(queue);
  const { overrides, devDependencies, ...rest } = mergeWorkspaces(manifest, lock);
  const root = { ...rest, ...(withTools ? { devDependencies } : {}) };
  while (queue.length > 0) {
    const path = queue.pop();
    const entry = { ...(path === '' ? root : lock.packages[path]) };
    if (entry.link) return undefined;
    const optional = chooseOptional(lock.packages, path, Object.keys(entry.optionalDependencies ?? {}), machine);
    if (!optional) return undefined;
    const wanted = new Map(optional);
    // A name in both lists is optional.
    for (const name of Object.keys({ ...entry.dependencies, ...entry.devDependencies })) {
      if (name in (entry.optionalDependencies ?? {})) continue;
      wanted.set(name, locate(lock.packages, path, name));
    }
    for (const name of Object.keys(entry.peerDependencies ?? {})) {
      if (!entry.peerDependenciesMeta?.[name]?.optional) wanted.set(name, locate(lock.packages, path, name));
    }
    if ([...wanted.values()].includes(undefined)) return undefined;
    if (entry.optionalDependencies) {
      entry.optionalDependencies = Object.fromEntries(
        optional.map(([name]) => [name, entry.optionalDependencies[name]]),
      );
    }
    if (path !== '' && !entry.inBundle) entry.resolved ??= tarballOf(path, entry);
    planned[path] = entry;
    for (const next of wanted.values()) {
      if (seen.has(next)) continue;
      seen.add(next);
      queue.push(next);
    }
  }
  // Overrides with a local folder stand for packages that are left out.
  const kept = Object.entries(overrides ?? {}).filter(([, range]) => !String(range).startsWith('file:'));
  if (kept.length > 0) planned[''].overrides = Object.fromEntries(kept);
  return { manifest: planned[''], lock: { ...lock, packages: planned } };
}
