import { enableCompileCache } from 'node:module';

// Before anything else is loaded: later starts then skip stripping types and compiling.
enableCompileCache();

const { runCommand } = await import('./cli/run.ts');
process.exitCode = await runCommand(process.argv.slice(2), process.env);
