#!/usr/bin/env node
// The command of a release: runs @baobab/server under the Node that runs this file.
import { fileURLToPath } from 'node:url';
import { start } from './start.mjs';

const NODE = 24;

if (Number.parseInt(process.versions.node, 10) === NODE) {
  start(process.execPath, fileURLToPath(import.meta.resolve('@baobab/server/main.js')));
} else {
  process.stderr.write(
    `baobab: Baobab runs on Node ${NODE}, and this is ${process.version}: install it from https://nodejs.org\n`,
  );
  process.exitCode = 1;
}
