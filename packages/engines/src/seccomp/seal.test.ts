import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { filterProgram, INSTRUCTION_BYTES } from './filter.ts';

const PROGRAM = join(import.meta.dirname, 'testing/attempts.ts');
const ROOT = join(import.meta.dirname, '../../../..');

async function attempts(...flags: string[]) {
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, PROGRAM], { env: {} });
  return JSON.parse(stdout) as { reason?: string; before: Record<string, string>; after: Record<string, string> };
}

describe.runIf(process.platform === 'linux')('a sealed process', () => {
  it('opens no file and no socket, starts nothing and signals no other, from JavaScript and from native code', async () => {
    const { reason, before, after } = await attempts();
    expect(reason).toBeUndefined();
    const { unlink, ioUring, ...possible } = before;
    expect(unlink).toBe('ENOENT');
    expect(ioUring).toBe('EFAULT');
    expect([...new Set(Object.values(possible))]).toEqual(['done']);
    const { openInThread, ...refused } = after;
    expect(openInThread).toBe('refused');
    expect([...new Set(Object.values(refused))]).toEqual(['EPERM']);
    expect(Object.keys(after)).toEqual(expect.arrayContaining(Object.keys(before)));
  });

  it('takes less processor time than Node took to start', async () => {
    const program = `import { sealProcess } from './packages/engines/src/seccomp/seal.ts';
      import { writeSync } from 'node:fs';
      const total = ({ user, system }) => user + system;
      const before = process.cpuUsage();
      const { exit } = await sealProcess();
      writeSync(1, JSON.stringify([total(before), total(process.cpuUsage(before))]));
      exit(0);`;
    const args = ['--no-warnings', '--input-type=module', '--eval', program];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, env: {} });
    const [start, seal] = JSON.parse(stdout);
    expect(seal).toBeLessThan(start);
  });

  it('says why it is not sealed where native code may not be loaded', async () => {
    const program = "import { sealProcess } from './packages/engines/src/seccomp/seal.ts';";
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [
        ...['--permission', `--allow-fs-read=${ROOT}`, '--no-warnings', '--input-type=module', '--eval'],
        `${program} process.stdout.write(String((await sealProcess()).reason));`,
      ],
      { cwd: ROOT, env: {} },
    );
    expect(stdout).toMatch(/^Cannot load native addon/);
  });
});

/** Runs the filter as the kernel does. Returns its verdict. */
function verdict(
  program: Buffer,
  { audit, number, args = [] }: { audit: number; number: number; args?: number[] },
): number {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number, 0);
  data.writeUInt32LE(audit, 4);
  args.forEach((value, index) => {
    data.writeBigUInt64LE(BigInt(value), 16 + 8 * index);
  });
  let accumulator = 0;
  for (let at = 0; ; at++) {
    const offset = at * INSTRUCTION_BYTES;
    const [code, value] = [program.readUInt16LE(offset), program.readUInt32LE(offset + 4)];
    if (code === 0x06) return value;
    if (code === 0x20) accumulator = data.readUInt32LE(value);
    else {
      const holds = code === 0x15 ? accumulator === value : (accumulator & value) !== 0;
      at += program.readUInt8(offset + (holds ? 2 : 3));
    }
  }
}

const ALLOWED = 0x7fff0000;
const EPERM = 0x00050001;
const ENOSYS = 0x00050026;

describe.each([
  { name: 'x64', audit: 0xc000003e, read: 0, openat: 257, socket: 41, execve: 59, clone: 56, fcntl: 72, kill: 62 },
  {
    name: 'arm64',
    audit: 0xc00000b7,
    read: 63,
    openat: 56,
    socket: 198,
    execve: 221,
    clone: 220,
    fcntl: 25,
    kill: 129,
  },
] as const)('the filter of $name', ({ name, audit, read, openat, socket, execve, clone, fcntl, kill }) => {
  const program = filterProgram(name, 4_242);
  const of = (number: number, ...args: number[]) => verdict(program, { audit, number, args });

  it('allows what works on open descriptors and refuses new ones', () => {
    expect(of(read)).toBe(ALLOWED);
    expect([openat, socket, execve, 425, 426, 437].map((number) => of(number))).toEqual(Array(6).fill(EPERM));
  });

  it('allows threads and no processes', () => {
    expect(of(clone, 0x3d0f00)).toBe(ALLOWED);
    expect(of(clone, 17)).toBe(EPERM);
    expect(of(435)).toBe(ENOSYS);
  });

  it('allows signals to itself only, also by way of descriptors', () => {
    expect([of(kill, 4_242), of(kill, 1)]).toEqual([ALLOWED, EPERM]);
    expect([of(fcntl, 0, 4), of(fcntl, 0, 8), of(fcntl, 0, 10)]).toEqual([ALLOWED, EPERM, EPERM]);
  });

  it('ends a process that calls the kernel as another architecture', () => {
    expect(verdict(program, { audit: 0x40000003, number: 3 })).toBe(0x80000000);
  });
});
