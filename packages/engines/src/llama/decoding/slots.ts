import { errors } from '@baobab/core/errors/errors.ts';
import type { Sequence } from './sequence.ts';

/** One sequence of the context, with what its key-value cache holds. */
export interface Slot {
  readonly sequence: Sequence;
  /** Leading tokens of the cache that came from whole prompt chunks, each evaluated alone. */
  reproducibleTokens: number;
}

export interface SlotRequest {
  accountId: string;
  tokens: readonly number[];
  /** Reuse only tokens that a cold run would compute bit for bit the same. */
  reproducible: boolean;
  /** Reuse nothing: all tokens have to be computed. */
  fresh: boolean;
  signal: AbortSignal;
}

export interface AcquiredSlot {
  slot: Slot;
  /** Tokens of the prompt that are in the cache already. */
  cachedTokens: number;
  /** Returns the slot to the pool. `keep: false` clears its cache. */
  release(options: { keep: boolean }): Promise<void>;
}

export interface SlotPool {
  acquire(request: SlotRequest): Promise<AcquiredSlot>;
  readonly busy: number;
}

interface PooledSlot extends Slot {
  accountId: string | undefined;
  tokens: readonly number[];
  lastUsed: number;
  busy: boolean;
}

export interface SlotPoolOptions {
  /** All sequences of a context. */
  sequences: readonly Sequence[];
  /** Reproducible prompts are evaluated in chunks of this many tokens. */
  chunkTokens: number;
}

/**
 * Prefix cache: takes the free slot that saves the most work, the cached tokens of other prompts that it costs included. Those count the less
 * the longer they were not used: a long list of tools outlives the short requests that chats send beside it, but not for ever.
 */
export function createSlotPool({ sequences, chunkTokens }: SlotPoolOptions): SlotPool {
  const slots: PooledSlot[] = sequences.map((sequence) => ({
    sequence,
    accountId: undefined,
    tokens: [],
    reproducibleTokens: 0,
    lastUsed: 0,
    busy: false,
  }));
  const waiting: (() => void)[] = [];
  let uses = 0;

  const take = (request: SlotRequest): { slot: PooledSlot; cachedTokens: number } | undefined => {
    const free = slots.filter((slot) => !slot.busy);
    const candidates = free.map((slot) => ({ slot, cachedTokens: reusable(slot, request) }));
    const worth = ({ slot, cachedTokens }: { slot: PooledSlot; cachedTokens: number }) => {
      const rounds = (uses - slot.lastUsed) / slots.length;
      return cachedTokens - (slot.tokens.length - cachedTokens) / (1 + rounds);
    };
    candidates.sort((a, b) => worth(b) - worth(a) || a.slot.lastUsed - b.slot.lastUsed);
    return candidates[0];
  };

  const reusable = (slot: PooledSlot, { accountId, tokens, reproducible, fresh }: SlotRequest): number => {
    if (fresh || slot.accountId !== accountId || slot.sequence.isForwardOnly) return 0;
    // The last prompt token is always evaluated again: its logits choose the first new token.
    const limit = Math.min(tokens.length - 1, slot.tokens.length);
    let common = 0;
    while (common < limit && slot.tokens[common] === tokens[common]) common++;
    if (!reproducible) return common;
    const exact = Math.min(common, slot.reproducibleTokens);
    return exact - (exact % chunkTokens);
  };

  return {
    async acquire(request) {
      let found = waiting.length > 0 ? undefined : take(request);
      while (found === undefined) {
        await slotRelease(waiting, request.signal);
        found = take(request);
      }
      const { slot, cachedTokens } = found;
      slot.busy = true;
      slot.lastUsed = ++uses;
      const release = async ({ keep }: { keep: boolean }) => {
        try {
          if (keep) slot.tokens = slot.sequence.tokens;
          else await forget(slot);
        } finally {
          // The next request tries to forget again, and learns why that fails.
          slot.busy = false;
          waiting.shift()?.();
        }
      };
      try {
        await eraseFrom(slot, cachedTokens);
        slot.accountId = request.accountId;
      } catch (error) {
        await release({ keep: false });
        throw error;
      }
      return { slot, cachedTokens, release };
    },
    get busy() {
      return slots.filter((slot) => slot.busy).length;
    },
  };
}

async function eraseFrom(slot: PooledSlot, length: number): Promise<void> {
  await slot.sequence.truncate(length);
  slot.reproducibleTokens = Math.min(slot.reproducibleTokens, length);
}

async function forget(slot: PooledSlot): Promise<void> {
  slot.accountId = undefined;
  slot.tokens = [];
  slot.reproducibleTokens = 0;
  await slot.sequence.truncate(0);
}

/** Resolves when a slot is free, in order of arrival. */
function slotRelease(waiting: (() => void)[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const wake = () => {
      signal.removeEventListener('abort', cancel);
      resolve();
    };
    const cancel = () => {
      const at = waiting.indexOf(wake);
      if (at !== -1) waiting.splice(at, 1);
      reject(errors.clientCancelled());
    };
    if (signal.aborted) return cancel();
    signal.addEventListener('abort', cancel, { once: true });
    waiting.push(wake);
  });
}
