import { enableCompileCache } from 'node:module';

// Before anything else is loaded: later starts then skip stripping types and compiling.
enableCompileCache();

const { runCommand } = await import('./cli/run.ts');
const exitCode = await runCommand(process.argv.slice(2), process.env);
// A start that failed half-way leaves timers and threads behind, which would keep the process alive.
if (exitCode === 0) process.exitCode = 0;
else process.exit(exitCode);
