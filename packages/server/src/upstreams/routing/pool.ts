import type { Logger } from '@baobab/core/ports/logger.ts';
import type { UpstreamSettings } from '../upstream-settings.ts';
import { type Endpoint, findEndpoints, type Resolver } from './discovery.ts';
import { createHealthChecks } from './health-check.ts';
import type { Upstream } from './upstream.ts';

/** The servers that run one model, and checks of their health: those with a fixed address, and those that DNS names at the moment. */
export interface UpstreamPool {
  members(): readonly Upstream[];
  close(): Promise<void>;
}

export interface UpstreamPoolDependencies {
  slug: string;
  upstreams: readonly UpstreamSettings[];
  create(settings: UpstreamSettings, index: number, endpoint?: Endpoint): Upstream;
  resolver: Resolver;
  intervalMs: number;
  healthIntervalMs: number;
  random(): number;
  logger: Pick<Logger, 'info' | 'warn'>;
  /** Called after each health check. */
  onChecked(): void;
}

const IDLE_CHECK_MS = 250;

export function createUpstreamPool(dependencies: UpstreamPoolDependencies): UpstreamPool {
  const { slug, create, resolver, intervalMs, healthIntervalMs, random, logger, onChecked } = dependencies;
  const checks = createHealthChecks({ slug, intervalMs: healthIntervalMs, random, logger, onChecked });
  const fixed: Upstream[] = [];
  /** By the place of their settings and their address. */
  const found = new Map<number, Map<string, Upstream>>();
  const leaving = new Set<Promise<void>>();
  const timers = new Set<NodeJS.Timeout>();
  let members: readonly Upstream[] = [];
  let isClosed = false;

  const refresh = () => {
    members = [...fixed, ...[...found.values()].flatMap((each) => [...each.values()])];
  };

  /** Lets running requests end, then closes the connections. */
  async function drain(upstream: Upstream): Promise<void> {
    while (upstream.inFlight > 0 && !isClosed) {
      await new Promise((resolve) => setTimeout(resolve, IDLE_CHECK_MS).unref());
    }
    upstream.close();
  }

  function update(index: number, settings: UpstreamSettings, endpoints: readonly Endpoint[]): void {
    const known = found.get(index) ?? new Map<string, Upstream>();
    found.set(index, known);
    const addresses = new Set(endpoints.map(({ address }) => address));
    for (const [address, upstream] of known) {
      if (addresses.has(address)) continue;
      known.delete(address);
      logger.info({ model: slug, upstream: address }, 'upstream has left');
      checks.remove(upstream);
      const left = drain(upstream).finally(() => leaving.delete(left));
      leaving.add(left);
    }
    for (const endpoint of endpoints) {
      if (known.has(endpoint.address)) continue;
      const upstream = create(settings, index, endpoint);
      known.set(endpoint.address, upstream);
      logger.info({ model: slug, upstream: endpoint.address }, 'upstream has joined');
      checks.add(upstream);
    }
    refresh();
  }

  async function discover(
    index: number,
    settings: UpstreamSettings,
    discovery: NonNullable<UpstreamSettings['discover']>,
  ) {
    let isFailing = false;
    const look = async (): Promise<void> => {
      try {
        const endpoints = await findEndpoints(new URL(settings.url), discovery, resolver);
        if (isClosed) return;
        isFailing = false;
        update(index, settings, endpoints);
      } catch (error) {
        // The servers are most likely still there: keep those that were found last.
        const problem = (error as Error).message;
        if (!isFailing) logger.warn({ model: slug, url: settings.url, problem }, 'failed to look up upstreams');
        isFailing = true;
      }
      if (isClosed) return;
      const timer = setTimeout(() => {
        timers.delete(timer);
        void look();
      }, intervalMs).unref();
      timers.add(timer);
    };
    await look();
  }

  for (const [index, settings] of dependencies.upstreams.entries()) {
    if (settings.discover !== undefined) {
      void discover(index, settings, settings.discover);
      continue;
    }
    const upstream = create(settings, index);
    fixed.push(upstream);
    checks.add(upstream);
  }
  refresh();

  return {
    members: () => members,
    async close() {
      isClosed = true;
      checks.stop();
      for (const timer of timers) clearTimeout(timer);
      for (const upstream of members) upstream.close();
      await Promise.all(leaving);
    },
  };
}
