import { Gauge, type Registry } from 'prom-client';

interface CountersStatus {
  shared: boolean;
  replicas: number;
}

/** Counters that several servers share. */
export function createCountersMetrics(registry: Registry, status: () => CountersStatus): void {
  const registers = [registry];
  new Gauge({
    name: 'baobab_counters_shared',
    help: '1 while limits are counted in Redis, 0 while Redis is away and this server enforces its share',
    registers,
    collect() {
      this.set(status().shared ? 1 : 0);
    },
  });
  new Gauge({
    name: 'baobab_counters_replicas',
    help: 'Servers that share the counters, as last seen',
    registers,
    collect() {
      this.set(status().replicas);
    },
  });
}
