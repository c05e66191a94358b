#!/usr/bin/env node
// Installs what is missing, then runs src/main.ts under the pinned Node.
import { spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ensureInstalled, pinnedNode } from '../scripts/install.mjs';

ensureInstalled('run');

// File work of all kinds shares these threads. Four of them, Node's own number, could all be syncing uploads while the ledger waits.
process.env.UV_THREADPOOL_SIZE ??= '16';

const isPinned = process.execPath === realpathSync(pinnedNode);
if (isPinned) {
  await import('../src/main.ts');
} else {
  const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
  const child = spawn(pinnedNode, [main, ...process.argv.slice(2)], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? (signal === 'SIGINT' ? 130 : signal === 'SIGTERM' ? 143 : 1);
  });
}
