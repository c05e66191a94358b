import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { makeFolder } from '@baobab/core/runtime/make-folder.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { llamaLibrary } from './local-builds.ts';

type Environment = Readonly<Record<string, string | undefined>>;

const PROGRAM = 'llama-server';
/** One file that needs no libraries beside it, and neither its web page nor a way to fetch models. */
const OPTIONS = [
  'CMAKE_BUILD_TYPE=Release',
  'BUILD_SHARED_LIBS=OFF',
  'LLAMA_BUILD_TESTS=OFF',
  'LLAMA_BUILD_EXAMPLES=OFF',
  'LLAMA_BUILD_UI=OFF',
  'LLAMA_USE_PREBUILT_UI=OFF',
  'LLAMA_OPENSSL=OFF',
];
const BACKEND_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  cpu: ['GGML_METAL=OFF'],
  cuda: ['GGML_CUDA=ON'],
  vulkan: ['GGML_VULKAN=ON'],
  metal: [],
};

/** Compiles llama.cpp's server from the source that node-llama-cpp brings. The output goes to the terminal. */
export async function buildServer(backend: string, folder: string, environment: Environment): Promise<string> {
  await makeFolder(folder);
  const work = await mkdtemp(join(folder, '.build-'));
  const [source, build] = [join(work, 'source'), join(work, 'build')];
  // `nice` and this variable make it leave room on a machine that serves.
  const env = { CMAKE_BUILD_PARALLEL_LEVEL: String(availableParallelism()), ...environment };
  const options = [...OPTIONS, ...(BACKEND_OPTIONS[backend] ?? [])].map((option) => `-D${option}`);
  const steps: [string, ...string[]][] = [
    [
      'git',
      '-c',
      'advice.detachedHead=false',
      'clone',
      '--quiet',
      join(llamaLibrary(), 'llama', 'gitRelease.bundle'),
      source,
    ],
    ['cmake', '-S', source, '-B', build, ...options],
    ['cmake', '--build', build, '--config', 'Release', '--target', PROGRAM],
  ];
  try {
    for (const [command, ...args] of steps) await run(command, args, env, backend);
    const program = join(folder, PROGRAM);
    await rename(join(build, 'bin', PROGRAM), program);
    return program;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function run(command: string, args: readonly string[], env: Environment, backend: string): Promise<void> {
  const needs = `It needs ${needsOf(backend)}, cmake and git`;
  const child = spawn(command, args, { stdio: 'inherit', env: { ...env } });
  const [code] = await once(child, 'exit').catch((error: Error) => {
    throw new Error(`the build failed: ${command} cannot be run: ${systemReason(error)}. ${needs}`);
  });
  if (code !== 0) throw new Error(`the build failed; its output says why. ${needs}`);
}

export function needsOf(backend: string): string {
  if (backend === 'cuda') return "the CUDA toolkit (nvcc) in a version that the GPU's driver supports, a C++ compiler";
  if (backend === 'vulkan') return 'the Vulkan SDK (headers and glslc), a C++ compiler';
  return 'a C++ compiler';
}
