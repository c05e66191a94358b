import { errors } from '../../errors/errors.ts';

/** A model as the budget sees it. */
export interface Tenant {
  readonly slug: string;
  readonly lastUsedAt: number;
  /** Real memory of its processes, or what was set aside while it loads. */
  usedBytes(): Promise<number>;
  setAside(bytes: number): void;
  /** Loaded, and nobody uses it or waits for it. */
  idle(): boolean;
  evict(): Promise<void>;
}

export interface MemoryBudget {
  /** Makes room, by unloading idle models and else by waiting for one to become idle. */
  reserve(tenant: Tenant, needBytes: number, signal: AbortSignal): Promise<void>;
  /** Brings the machine back under the budget when loaded models have grown. */
  trim(): Promise<{ usedBytes: number; overBytes: number }>;
  /** Something became idle or was unloaded: those who wait for room look again. */
  changed(): void;
}

const megabytes = (bytes: number) => `${Math.ceil(bytes / 1024 / 1024)} MB`;

export function createMemoryBudget(limitBytes: number, tenants: () => Iterable<Tenant>): MemoryBudget {
  let turn: Promise<unknown> = Promise.resolve();
  /** There while somebody waits. */
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

  /** The bytes in use by others if they leave no room, even without those that are idle. */
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

  /** One at a time: two that look at the same free memory would both take it. */
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
