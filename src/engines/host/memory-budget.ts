import { errors } from '../../errors/errors.ts';

/** A model as the budget sees it. */
export interface Tenant {
  readonly slug: string;
  readonly lastUsedAt: number;
  /** Real memory of its processes, or what was set aside while it loads. */
  usedBytes(): Promise<number>;
  setAside(bytes: number): void;
  /** Loaded, and no request uses it or waits for it. */
  idle(): boolean;
  evict(): Promise<void>;
}

export interface MemoryBudget {
  /** Makes room: unloads idle models, or waits until one becomes idle. */
  reserve(tenant: Tenant, needBytes: number, signal: AbortSignal): Promise<void>;
  /** Unloads idle models for it, then takes what is free. Returns how much that is, at most `wantBytes`. */
  reserveUpTo(tenant: Tenant, wantBytes: number): Promise<number>;
  /** Unloads idle models when the loaded ones have outgrown the budget. */
  trim(): Promise<{ usedBytes: number; overBytes: number }>;
  /** A model became idle or was unloaded: wakes the reservations that wait for room. */
  changed(): void;
}

const megabytes = (bytes: number) => `${Math.ceil(bytes / 1024 / 1024)} MB`;

export function createMemoryBudget(limitBytes: number, tenants: () => Iterable<Tenant>): MemoryBudget {
  let turn: Promise<unknown> = Promise.resolve();
  /** Set while a reservation waits. */
  let wake: PromiseWithResolvers<void> | undefined;

  async function usedBytes(except?: Tenant): Promise<number> {
    const others = [...tenants()].filter((tenant) => tenant !== except);
    const sizes = await Promise.all(others.map((tenant) => tenant.usedBytes()));
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  function leastRecentlyUsed(except?: Tenant): Tenant | undefined {
    return [...tenants()]
      .filter((tenant) => tenant !== except && tenant.idle())
      .sort((a, b) => a.lastUsedAt - b.lastUsedAt)[0];
  }

  /** Unloads idle models until there is room. Returns the bytes that models in use hold when there is not. */
  async function makeRoom(tenant: Tenant, needBytes: number): Promise<number | undefined> {
    while (true) {
      const used = await usedBytes(tenant);
      if (used + needBytes <= limitBytes) {
        tenant.setAside(needBytes);
        return undefined;
      }
      const victim = leastRecentlyUsed(tenant);
      if (victim === undefined) return used;
      await victim.evict();
    }
  }

  /** One at a time: two reservations that see the same free memory would both take it. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = turn.then(work);
    turn = mine.catch(() => {});
    return mine;
  }

  return {
    async reserve(tenant, needBytes, signal) {
      if (needBytes > limitBytes) {
        throw errors.modelUnavailable(
          tenant.slug,
          `it needs about ${megabytes(needBytes)} of memory, and models may use ${megabytes(limitBytes)} in all`,
        );
      }
      const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      while (true) {
        wake ??= Promise.withResolvers();
        const changed = wake.promise;
        const used = await inTurn(() => makeRoom(tenant, needBytes));
        if (used === undefined) return;
        if (!signal.aborted) await Promise.race([changed, aborted]);
        if (signal.aborted) {
          throw errors.modelUnavailable(
            tenant.slug,
            `it needs about ${megabytes(needBytes)} of memory, models in use have ${megabytes(used)} of ` +
              `${megabytes(limitBytes)}, and none became idle in time`,
          );
        }
      }
    },
    reserveUpTo: (tenant, wantBytes) =>
      inTurn(async () => {
        const used = await makeRoom(tenant, Math.min(wantBytes, limitBytes));
        if (used === undefined) return Math.min(wantBytes, limitBytes);
        const free = Math.max(0, limitBytes - used);
        tenant.setAside(free);
        return free;
      }),
    async trim() {
      let used = await usedBytes();
      while (used > limitBytes) {
        const victim = leastRecentlyUsed();
        if (victim === undefined) break;
        await victim.evict();
        used = await usedBytes();
      }
      return { usedBytes: used, overBytes: Math.max(0, used - limitBytes) };
    },
    changed() {
      wake?.resolve();
      wake = undefined;
    },
  };
}
