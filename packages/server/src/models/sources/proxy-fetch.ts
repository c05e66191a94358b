import { EnvHttpProxyAgent, fetch as undiciFetch } from 'undici';
import type { Environment } from './npm-settings.ts';

const CONNECT_TIMEOUT_MS = 5_000;

export interface ProxyFetchOptions {
  /** Replaces the proxies of the environment. */
  proxy?: string | undefined;
  /** Certificate authorities, PEM; replaces Node's own list. */
  ca?: string | undefined;
}

/** A fetch that uses the usual proxy variables and gives up quickly when it cannot connect. */
export function createProxyFetch(environment: Environment, { proxy, ca }: ProxyFetchOptions = {}) {
  const setting = (name: string) => environment[name] ?? environment[name.toUpperCase()] ?? '';
  const tls = ca === undefined ? {} : { ca };
  const dispatcher = new EnvHttpProxyAgent({
    httpProxy: proxy ?? setting('http_proxy'),
    httpsProxy: proxy ?? setting('https_proxy'),
    noProxy: setting('no_proxy'),
    connect: { timeout: CONNECT_TIMEOUT_MS, ...tls },
    requestTls: tls,
  });
  const proxied = (input: string | URL, init?: object) => undiciFetch(input, { ...init, dispatcher });
  return {
    /** The same interface; only the two libraries' type declarations differ. */
    fetch: proxied as unknown as typeof fetch,
    close: (): Promise<void> => dispatcher.destroy(),
  };
}
