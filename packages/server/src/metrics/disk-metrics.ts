import { Gauge, type Registry } from 'prom-client';

interface DiskStatus {
  freeBytes: number;
  reserveBytes: number;
}

/** Read when Prometheus asks. */
export function createDiskMetrics(registry: Registry, status: () => Promise<DiskStatus>): void {
  const registers = [registry];
  new Gauge({
    name: 'baobab_disk_free_bytes',
    help: 'Free space on the disk of the data directory',
    registers,
    async collect() {
      this.set((await status()).freeBytes);
    },
  });
  new Gauge({
    name: 'baobab_disk_reserve_bytes',
    help: 'With less free space, uploads and other large writes are refused',
    registers,
    async collect() {
      this.set((await status()).reserveBytes);
    },
  });
}
