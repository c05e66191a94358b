import { enableCompileCache } from 'node:module';

// Before anything else is loaded, so that later starts skip type stripping and compiling. bin/baobab.mjs has chosen the folder.
enableCompileCache();

const { runCommand } = await import('./cli/run.ts');
const exitCode = await runCommand(process.argv.slice(2), process);
// A start that failed halfway leaves timers and threads behind, which would keep the process alive.
if (exitCode === 0) process.exitCode = 0;
else process.exit(exitCode);
