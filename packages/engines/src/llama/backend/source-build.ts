import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('./source-build-entry.ts', import.meta.url));

/**
 * Compiles llama.cpp and the addon with the compilers of this machine, from the source that node-llama-cpp brings. Its engines find
 * the result by themselves. The output goes to the terminal.
 */
export async function buildBackend(
  backend: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const child = spawn(process.execPath, [SCRIPT, backend], { stdio: 'inherit', env: { ...environment } });
  const [code] = await once(child, 'exit');
  if (code !== 0)
    throw new Error(`the build failed; its output says why. It needs ${needsOf(backend)}, cmake, git and npm`);
}

function needsOf(backend: string): string {
  if (backend === 'cuda') return "the CUDA toolkit (nvcc) in a version that the GPU's driver supports, a C++ compiler";
  if (backend === 'vulkan') return 'the Vulkan SDK (headers and glslc), a C++ compiler';
  return 'a C++ compiler';
}
