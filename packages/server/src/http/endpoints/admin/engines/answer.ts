import { isoTimeOrNull } from '@baobab/core/domain/time/dates.ts';
import type { Static } from 'typebox';
import type { OperatedEngine } from '../../../../services/operators/engine-control.ts';
import type { EngineShape } from './schema.ts';

export const engineToWire = (report: OperatedEngine): Static<typeof EngineShape> => ({
  object: 'engine',
  model: report.slug,
  version: report.version,
  driver: report.driver,
  status: report.status,
  reason: report.reason,
  process_ids: [...report.processIds],
  processes: report.processIds.length,
  memory_bytes: report.memoryBytes,
  planned_bytes: report.plannedBytes,
  context_bytes: report.contextBytes,
  device: report.device && {
    backend: report.device.backend,
    names: [...report.device.names],
    gpu_layers: report.device.gpuLayers,
    layers: report.device.layers,
    video_bytes: report.device.videoBytes,
  },
  loaded_at: isoTimeOrNull(report.loadedAt),
  load_ms: report.loadMs === null ? null : Math.round(report.loadMs),
  in_flight: report.inFlight,
  queue_depth: report.queueDepth,
  tokens_per_second: report.tokensPerSecond,
  weights: report.weights && {
    status: report.weights.status,
    bytes_on_disk: report.weights.bytesOnDisk,
    total_bytes: report.weights.totalBytes,
    reason: report.weights.reason,
    retry_at: isoTimeOrNull(report.weights.retryAt),
  },
  upstreams: report.upstreams.map((upstream) => ({
    address: upstream.address,
    kind: upstream.kind,
    region: upstream.region,
    healthy: upstream.healthy,
    breaker: upstream.breaker,
    in_flight: upstream.inFlight,
    max_concurrency: upstream.maxConcurrency,
    problem: upstream.problem ?? null,
    last_error: upstream.lastError ?? null,
  })),
});
