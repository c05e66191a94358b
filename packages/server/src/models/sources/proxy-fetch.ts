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
  /** With its library, which a server needs only after it has started. */
  async function connect() {
    const { EnvHttpProxyAgent, fetch } = await import('undici');
    const dispatcher = new EnvHttpProxyAgent({
      httpProxy: proxy ?? setting('http_proxy'),
      httpsProxy: proxy ?? setting('https_proxy'),
      noProxy: setting('no_proxy'),
      connect: { timeout: CONNECT_TIMEOUT_MS, ...tls },
      requestTls: tls,
    });
    return { fetch, dispatcher };
  }
  let connected: ReturnType<typeof connect> | undefined;
  const proxied = async (input: string | URL, init?: object) => {
    connected ??= connect();
    const { fetch, dispatcher } = await connected;
    return fetch(input, { ...init, dispatcher });
  };
  return {
    /** The same interface; only the two libraries' type declarations differ. */
    fetch: proxied as unknown as typeof fetch,
    close: async (): Promise<void> => (await connected)?.dispatcher.destroy(),
  };
}
