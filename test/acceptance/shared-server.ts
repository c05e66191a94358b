import type { TestProject } from 'vitest/node';
import { missingBrowser } from './console/chromium.ts';
import { startServer } from './start-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The address of the shared server. */
    sharedServer: string;
    /** Why there is no browser; empty if there is one. */
    missingBrowser: string;
  }
}

/**
 * One server with default settings for all files that only send requests; each takes an account of its own. Whether a browser
 * starts is tried once, before the files.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [server, missing = ''] = await Promise.all([startServer(), missingBrowser()]);
  project.provide('sharedServer', server.address);
  project.provide('missingBrowser', missing);
  return async () => server[Symbol.asyncDispose]();
}
