import { Gauge, type Registry } from 'prom-client';

interface WaitingRows {
  rows: number;
  since: number | undefined;
}

/** Ledger rows that wait for PostgreSQL. */
export function createJournalMetrics(registry: Registry, waiting: () => WaitingRows): void {
  const registers = [registry];
  new Gauge({
    name: 'baobab_journal_rows',
    help: 'Ledger rows that wait in the journal of this server for PostgreSQL',
    registers,
    collect() {
      this.set(waiting().rows);
    },
  });
  new Gauge({
    name: 'baobab_journal_since_seconds',
    help: 'Unix time of the oldest of them; 0 without any',
    registers,
    collect() {
      this.set((waiting().since ?? 0) / 1_000);
    },
  });
}
