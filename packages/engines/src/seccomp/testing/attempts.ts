/** Tries what a sealed process must not do, from JavaScript and from native code, before and after the seal. Writes JSON. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import koffi from 'koffi';
import { sealProcess } from '../seal.ts';

const FILE = '/etc/passwd';
const [O_RDONLY, AF_INET, AF_UNIX, SOCK_STREAM, SIGCONT] = [0, 2, 1, 1, 18];

const libc = koffi.load(null);
const open = libc.func('int open(str, int)');
const openat = libc.func('int openat(int, str, int)');
const socket = libc.func('int socket(int, int, int)');
const fork = libc.func('int fork()');
const execv = libc.func('execv', 'int', ['str', koffi.pointer('str')]);
const kill = libc.func('int kill(int, int)');
const unlink = libc.func('int unlink(str)');
const ioUring = libc.func('syscall', 'long', ['long', 'long', 'long', 'long', 'long']);
const exit = libc.func('void _exit(int)');

const errnoOf = (result: number): string =>
  result >= 0 ? 'done' : (Object.entries(koffi.os.errno).find(([, code]) => code === koffi.errno())?.[0] ?? 'failed');

function forked(): string {
  const child = fork();
  if (child === 0) exit(0);
  return errnoOf(child);
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException)?.code ?? 'done';

async function fromJavaScript(port: number) {
  const caught = (attempt: () => unknown): string => {
    try {
      return codeOf((attempt() as { error?: unknown })?.error);
    } catch (error) {
      return codeOf(error);
    }
  };
  return {
    read: caught(() => readFileSync(FILE)),
    // In a thread of libuv.
    readLater: await readFile(FILE).then(() => 'done', codeOf),
    spawn: caught(() => spawnSync('/bin/true')),
    connect: await new Promise<string>((resolve) => {
      const client = connect(port, '127.0.0.1', () => client.destroy());
      client.on('error', (error) => resolve(codeOf(error))).on('close', () => resolve('done'));
    }),
  };
}

/** `execv` is tried after the seal only: it would replace this program. */
async function fromNativeCode() {
  return {
    open: errnoOf(open(FILE, O_RDONLY)),
    openat: errnoOf(openat(-100, FILE, O_RDONLY)),
    openInThread: await new Promise<string>((resolve) => {
      open.async(FILE, O_RDONLY, (_error: unknown, result: number) => resolve(result >= 0 ? 'done' : 'refused'));
    }),
    socket: errnoOf(socket(AF_INET, SOCK_STREAM, 0)),
    unixSocket: errnoOf(socket(AF_UNIX, SOCK_STREAM, 0)),
    fork: forked(),
    unlink: errnoOf(unlink('/none')),
    signalParent: errnoOf(kill(process.ppid, SIGCONT)),
    ioUring: errnoOf(Number(ioUring(425, 8, 0, 0, 0))),
  };
}

const server = createServer((client) => client.destroy()).listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
const { port } = server.address() as { port: number };

const before = { ...(await fromJavaScript(port)), ...(await fromNativeCode()) };
const seal = await sealProcess();
const after = {
  ...(await fromJavaScript(port)),
  ...(await fromNativeCode()),
  exec: errnoOf(execv('/bin/true', ['true', null])),
};
writeSync(1, JSON.stringify({ reason: seal.reason, before, after }));
seal.exit(0);
