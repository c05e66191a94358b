import { Gauge, type Registry } from 'prom-client';

interface ReadinessStatus {
  isReady(): Promise<boolean>;
  /** Why the store cannot be used; undefined when it can. */
  storeProblem(): Promise<string | undefined>;
}

/** What /readyz says, for alerts: `up` stays 1 while a server is not ready. */
export function createReadinessMetrics(registry: Registry, { isReady, storeProblem }: ReadinessStatus): void {
  const registers = [registry];
  new Gauge({
    name: 'baobab_ready',
    help: '1 while /readyz answers 200',
    registers,
    async collect() {
      this.set((await isReady()) ? 1 : 0);
    },
  });
  new Gauge({
    name: 'baobab_store_up',
    help: '1 while the database can be used',
    registers,
    async collect() {
      this.set((await storeProblem()) === undefined ? 1 : 0);
    },
  });
}
