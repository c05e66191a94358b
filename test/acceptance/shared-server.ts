import type { TestProject } from 'vitest/node';
import { startServer } from './start-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The address of the shared server. */
    sharedServer: string;
  }
}

/** One server with default settings for all files that only send requests; each takes an account of its own. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startServer();
  project.provide('sharedServer', server.address);
  return async () => server[Symbol.asyncDispose]();
}
