#!/usr/bin/env node
// Installs what is missing, then runs src/main.ts under the pinned Node.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ensureInstalled, pinnedNode } from '../scripts/install.mjs';
import { SERVE_FLAGS } from './serve-flags.mjs';

ensureInstalled('run');

// File work of all kinds shares these threads. Four of them, Node's own number, could all be syncing uploads while the ledger waits.
process.env.UV_THREADPOOL_SIZE ??= '16';

const command = process.argv.slice(2);
const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
const args = [...(command[0] === 'serve' ? SERVE_FLAGS : []), main, ...command];

// One process, where this Node can become another one: signals then reach the server itself.
if (process.execve !== undefined && process.platform !== 'win32') process.execve(pinnedNode, [pinnedNode, ...args]);

const child = spawn(pinnedNode, args, { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => {
  process.exitCode = code ?? (signal === 'SIGINT' ? 130 : signal === 'SIGTERM' ? 143 : 1);
});
