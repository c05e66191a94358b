import type { TestProject } from 'vitest/node';
import { startBrowser } from './console/chromium.ts';
import { startServer } from './start-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The address of the shared server. */
    sharedServer: string;
    /** Where the shared browser listens, or why there is none. */
    sharedBrowser: { endpoint: string } | { missing: string };
  }
}

/** One server with default settings for all files that only send requests, each with an account of its own, and one browser. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [server, browser] = await Promise.all([startServer(), startBrowser().catch((error: Error) => error)]);
  project.provide('sharedServer', server.address);
  project.provide(
    'sharedBrowser',
    browser instanceof Error ? { missing: `${browser.message.split('\n', 1)}` } : { endpoint: browser.wsEndpoint() },
  );
  return async () => {
    await server[Symbol.asyncDispose]();
    if (!(browser instanceof Error)) await browser.close();
  };
}
