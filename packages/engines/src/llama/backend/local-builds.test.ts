import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newestBuild } from './local-builds.ts';

let library: string;
beforeEach(() => {
  library = mkdtempSync(join(tmpdir(), 'baobab-builds-'));
});
afterEach(() => {
  rmSync(library, { recursive: true, force: true });
});

const HASH = '5z3h2k5v1s';
const PLATFORM = { darwin: 'mac', win32: 'win' }[process.platform as string] ?? process.platform;
const OWN = { platform: PLATFORM, arch: process.arch, gpu: 'cuda' as string | false };

interface Built {
  folder: string;
  second?: number;
  options?: typeof OWN;
  cmakeOptions?: Record<string, string>;
  leaveOut?: string;
}

/** As the library leaves it. */
function build({ folder, second = 0, options = OWN, cmakeOptions = {}, leaveOut }: Built): void {
  const path = join(library, 'llama', 'localBuilds', folder);
  const metadata = JSON.stringify({ buildOptions: { ...options, customCmakeOptions: cmakeOptions } });
  const files = {
    'buildDone.status': '',
    'Release/llama-addon.node': 'code',
    'Release/_nlcBuildMetadata.json': metadata,
  };
  mkdirSync(join(path, 'Release'), { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    if (name === leaveOut) continue;
    writeFileSync(join(path, name), text);
    utimesSync(join(path, name), second, second);
  }
}

describe('builds of llama.cpp on this machine', () => {
  it('are none where nothing was built', () => {
    expect(newestBuild('cuda', library)).toBeUndefined();
  });

  it('are found with CMake options, and by which options the library finds them again', () => {
    build({ folder: `linux-x64-cuda-${HASH}`, second: 60, cmakeOptions: { CMAKE_CUDA_ARCHITECTURES: '90-real' } });
    expect(newestBuild('cuda', library)).toEqual({
      builtAt: new Date(60_000),
      cmakeOptions: { CMAKE_CUDA_ARCHITECTURES: '90-real' },
    });
  });

  it('give way to newer ones', () => {
    build({ folder: 'linux-x64-cuda', second: 1 });
    build({ folder: `linux-x64-cuda-${HASH}`, second: 2, cmakeOptions: { CMAKE_CUDA_ARCHITECTURES: '90' } });
    expect(newestBuild('cuda', library)?.cmakeOptions).toEqual({ CMAKE_CUDA_ARCHITECTURES: '90' });
    build({ folder: 'linux-x64-cuda', second: 3 });
    expect(newestBuild('cuda', library)?.cmakeOptions).toEqual({});
  });

  it.each(['buildDone.status', 'Release/llama-addon.node', 'Release/_nlcBuildMetadata.json'])(
    'are not taken without %s',
    (leaveOut) => {
      build({ folder: 'linux-x64-cuda', leaveOut });
      expect(newestBuild('cuda', library)).toBeUndefined();
    },
  );

  it('belong to their backend, machine and source', () => {
    build({ folder: 'linux-x64-vulkan', options: { ...OWN, gpu: 'vulkan' } });
    build({ folder: 'linux-x64', second: 7, options: { ...OWN, gpu: false } });
    build({ folder: 'other-cuda', options: { ...OWN, arch: 'riscv64' } });
    build({ folder: 'linux-x64-cuda-release-b9999' });
    expect(newestBuild('cuda', library)).toBeUndefined();
    expect(newestBuild('vulkan', library)).toBeDefined();
    expect(newestBuild('cpu', library)?.builtAt).toEqual(new Date(7_000));
  });
});
