import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Seal } from '@baobab/core/sandbox/sandboxed-program.ts';
import { filterProgram, INSTRUCTION_BYTES, isArchitecture } from './filter.ts';

const PR_SET_NO_NEW_PRIVS = 38;
const SECCOMP_NUMBERS = { x64: 317, arm64: 277 } as const;
const SECCOMP_SET_MODE_FILTER = 1;
/** All threads of the process get the filter. */
const SECCOMP_FILTER_FLAG_TSYNC = 1;

/**
 * From now on the kernel lets this process open no file and no socket and start no program, whatever its native code does. Call it
 * when all code is loaded. It cannot be undone.
 */
export async function sealProcess(): Promise<Seal> {
  const { platform, arch, pid } = process;
  const unsealed = (reason: string): Seal => ({ reason, exit: (code) => process.exit(code) });
  if (platform !== 'linux' || !isArchitecture(arch)) return unsealed(`not available on ${platform} ${arch}`);
  // libuv registers its own descriptors in the first turn of the event loop, through io_uring if it can: not allowed afterwards.
  await nextTurn();
  try {
    const { default: koffi } = await import('koffi');
    const libc = koffi.load(null);
    const prctl = libc.func('int prctl(int, ulong, ulong, ulong, ulong)');
    const program = koffi.struct({ length: 'uint16', filter: 'void *' });
    const seccomp = libc.func('syscall', 'long', ['long', 'ulong', 'ulong', koffi.pointer(program)]);
    // Node ends its threads by way of io_uring.
    const exit = libc.func('void _exit(int)');
    // Without this the kernel takes filters from the administrator only.
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) !== 0) return unsealed(`prctl failed with error ${koffi.errno()}`);
    const filter = filterProgram(arch, pid);
    const argument = { length: filter.length / INSTRUCTION_BYTES, filter };
    const failed = seccomp(SECCOMP_NUMBERS[arch], SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, argument);
    return failed === 0 ? { exit } : unsealed(`seccomp failed with ${failed}, error ${koffi.errno()}`);
  } catch (error) {
    return unsealed((error as Error).message);
  }
}
