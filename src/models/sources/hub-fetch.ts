import { EnvHttpProxyAgent, fetch as undiciFetch } from 'undici';
import type { Environment } from './npm-settings.ts';

const CONNECT_TIMEOUT_MS = 5_000;

/** fetch that respects the usual proxy variables, as npm does, and does not wait long for a network that is away. */
export function createHubFetch(environment: Environment) {
  const setting = (name: string) => environment[name] ?? environment[name.toUpperCase()];
  const dispatcher = new EnvHttpProxyAgent({
    httpProxy: setting('http_proxy') ?? '',
    httpsProxy: setting('https_proxy') ?? '',
    noProxy: setting('no_proxy') ?? '',
    connect: { timeout: CONNECT_TIMEOUT_MS },
  });
  const proxied = (input: string | URL, init?: object) => undiciFetch(input, { ...init, dispatcher });
  return {
    /** The same interface; only the two libraries' type declarations differ. */
    fetch: proxied as unknown as typeof fetch,
    close: (): Promise<void> => dispatcher.destroy(),
  };
}
