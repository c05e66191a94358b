import { errors } from '@baobab/core/errors/errors.ts';

/** A model as the budget sees it: it holds memory until it is unloaded. */
export interface MemoryHolder {
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
  readonly limitBytes: number;
  /** Makes room: unloads idle models, or waits until one becomes idle. */
  reserve(holder: MemoryHolder, needBytes: number, signal: AbortSignal): Promise<void>;
  /** Unloads idle models for it, then takes what is free. Returns how much that is, at most `wantBytes`. */
  reserveUpTo(holder: MemoryHolder, wantBytes: number): Promise<number>;
  /** Unloads idle models when the loaded ones have outgrown the budget. */
  trim(): Promise<{ usedBytes: number; overBytes: number }>;
  /** A model became idle or was unloaded: wakes the reservations that wait for room. */
  changed(): void;
}

const megabytes = (bytes: number) => `${Math.ceil(bytes / 1024 / 1024)} MB`;

/** `kind`: how messages call this memory. */
export function createMemoryBudget(
  limitBytes: number,
  holders: () => Iterable<MemoryHolder>,
  kind = 'memory',
): MemoryBudget {
  let turn: Promise<unknown> = Promise.resolve();
  /** Set while a reservation waits. */
  let wake: PromiseWithResolvers<void> | undefined;

  async function usedBytes(except?: MemoryHolder): Promise<number> {
    const others = [...holders()].filter((holder) => holder !== except);
    const sizes = await Promise.all(others.map((holder) => holder.usedBytes()));
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  function leastRecentlyUsed(except?: MemoryHolder): MemoryHolder | undefined {
    return [...holders()]
      .filter((holder) => holder !== except && holder.idle())
      .sort((a, b) => a.lastUsedAt - b.lastUsedAt)[0];
  }

  /** Unloads idle models until there is room. Returns the bytes that models in use hold when there is not. */
  async function makeRoom(holder: MemoryHolder, needBytes: number): Promise<number | undefined> {
    while (true) {
      const used = await usedBytes(holder);
      if (used + needBytes <= limitBytes) {
        holder.setAside(needBytes);
        return undefined;
      }
      const victim = leastRecentlyUsed(holder);
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
    limitBytes,
    async reserve(holder, needBytes, signal) {
      if (needBytes > limitBytes) {
        throw errors.modelUnavailable(
          holder.slug,
          `it needs about ${megabytes(needBytes)} of ${kind}, and models may use ${megabytes(limitBytes)} in all`,
        );
      }
      const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      while (true) {
        wake ??= Promise.withResolvers();
        const changed = wake.promise;
        const used = await inTurn(() => makeRoom(holder, needBytes));
        if (used === undefined) return;
        if (!signal.aborted) await Promise.race([changed, aborted]);
        if (signal.aborted) {
          throw errors.modelUnavailable(
            holder.slug,
            `it needs about ${megabytes(needBytes)} of ${kind}, models in use have ${megabytes(used)} of ` +
              `${megabytes(limitBytes)}, and none became idle in time`,
          );
        }
      }
    },
    reserveUpTo: (holder, wantBytes) =>
      inTurn(async () => {
        const used = await makeRoom(holder, Math.min(wantBytes, limitBytes));
        if (used === undefined) return Math.min(wantBytes, limitBytes);
        const free = Math.max(0, limitBytes - used);
        holder.setAside(free);
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
