#!/usr/bin/env node
// The command of a checkout: installs what is missing, then runs packages/server/src/main.ts under the pinned Node.
import { fileURLToPath } from 'node:url';
import { ensureInstalled, pinnedNode } from '../scripts/install.mjs';
import { npmIsGone, start, watchNpm } from './start.mjs';

// The signal that npm was stopped by ends the install.
const watch = watchNpm(() => process.kill(process.pid, 'SIGTERM'));
await ensureInstalled('run');
clearInterval(watch);
if (npmIsGone()) process.exit(143);

start(pinnedNode, fileURLToPath(new URL('../packages/server/src/main.ts', import.meta.url)));
