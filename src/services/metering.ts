import type { Pricing } from '../domain/model.ts';
import { type Consumption, costNanoUsd } from '../domain/pricing.ts';
import type { Clock } from '../ports/clock.ts';
import type { Ledger, LedgerRow } from '../ports/ledger.ts';

/** What happened, as the caller knows it; time and cost are added here. */
export interface MeteredRequest {
  /** The request id, or an id that a repeated attempt has again, such as that of a batch line: it is billed once. */
  billingId: string;
  requestId: string;
  accountId: string;
  keyId: string;
  /** The slug without a pin. */
  model: string;
  version: string;
  /** Where it was served. */
  region: string;
  endpoint: string;
  used: Consumption;
  /** Of the catalog in force now. */
  pricing: Pricing;
  discountPercent?: number | undefined;
  status: number;
  durationMs: number;
  firstTokenMs?: number | null | undefined;
}

export interface Metered {
  costNanoUsd: number;
  /** The time of the row: it decides the month whose budget pays. */
  time: number;
  /** False: this was billed before, by an attempt whose end a crash has kept from us. */
  isNew: boolean;
}

export interface Metering {
  /** Resolves when the row is durable: only then may the answer end. A billing id that is there already changes nothing. */
  record(request: MeteredRequest): Promise<Metered>;
  /** Rows that wait for a commit. */
  readonly waiting: number;
}

export interface MeteringDependencies {
  ledger: Ledger;
  clock: Clock;
  /** Rows in one commit. */
  commitRows?: number | undefined;
  /** Beyond it `record` refuses, so that a store that has stopped does not fill the memory. */
  maxWaiting?: number | undefined;
}

interface Waiting {
  row: LedgerRow;
  resolve(isNew: boolean): void;
  reject(error: unknown): void;
}

/** Group commit: rows that arrive while a commit is running go together in the next one. No row waits for a timer. */
export function createMetering(dependencies: MeteringDependencies): Metering {
  const { ledger, clock, commitRows = 500, maxWaiting = 20_000 } = dependencies;
  let queue: Waiting[] = [];
  let committing = false;

  async function commitAll(): Promise<void> {
    committing = true;
    while (queue.length > 0) {
      const group = queue.slice(0, commitRows);
      queue = queue.slice(commitRows);
      try {
        const areNew = await ledger.append(group.map(({ row }) => row));
        for (const [index, { resolve }] of group.entries()) resolve(areNew[index] ?? false);
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    committing = false;
  }

  return {
    get waiting() {
      return queue.length;
    },
    async record(request) {
      if (queue.length >= maxWaiting) throw new Error(`${queue.length} ledger rows wait for the store`);
      const row = toRow(request, clock.now());
      const isNew = await new Promise<boolean>((resolve, reject) => {
        queue.push({ row, resolve, reject });
        if (!committing) void commitAll();
      });
      return { costNanoUsd: row.costNanoUsd, time: row.time, isNew };
    },
  };
}

/** Throws on counts that are no whole numbers, before a bad row could spoil the commit that it shares with others. */
function toRow(
  { used, firstTokenMs = null, discountPercent = 0, ...request }: MeteredRequest,
  time: number,
): LedgerRow {
  return {
    ...request,
    ...used,
    time,
    discountPercent,
    costNanoUsd: costNanoUsd(used, request.pricing, discountPercent),
    durationMs: Math.round(request.durationMs),
    firstTokenMs: firstTokenMs === null ? null : Math.round(firstTokenMs),
  };
}
