import { useNow } from '../../address/range.ts';
import type { Engine } from '../../api/types.ts';
import { type Detail, Details } from '../../components/details.tsx';
import { Badge, type BadgeTone } from '../../components/feedback.tsx';
import { bytes, compact, full } from '../../format/numbers.ts';
import { ago, duration } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { WeightsState } from './weights.tsx';

const TONES: Record<Exclude<Engine['status'], 'unavailable'>, BadgeTone> = {
  ready: 'good',
  loading: 'info',
  unloading: 'info',
  cold: 'plain',
};

export const engineName = ({ model, version }: Engine): string => `${model}@${version}`;

/**
 * Should work and does not. A catalog has models that this server is not set up to run, without an upstream or with weights that it
 * cannot fetch: they are unavailable, not broken.
 */
export const isBroken = ({ status, upstreams, weights }: Engine): boolean =>
  (status === 'unavailable' && (upstreams.length > 0 || weights?.status === 'present')) ||
  upstreams.some(({ healthy }) => !healthy);

export interface StatusProps {
  status: Engine['status'];
  /** Shown to people who point at it. */
  about?: string | undefined;
  broken?: boolean | undefined;
  /** Requests that run on it now. */
  running?: number | undefined;
}

/** How a state looks wherever it is shown. */
export function Status({ status, about, broken = false, running = 0 }: StatusProps) {
  const text =
    status === 'unloading' && running > 0 ? texts.engines.unloading(running) : texts.engines.statuses[status];
  return (
    <span title={about}>
      {status !== 'unavailable' ? (
        <Badge tone={TONES[status]}>{text}</Badge>
      ) : broken ? (
        <Badge tone="bad">{text}</Badge>
      ) : (
        <span class="muted">{text}</span>
      )}
    </span>
  );
}

export const EngineStatus = ({ engine }: { engine: Engine }) => (
  <Status
    status={engine.status}
    about={engine.reason ?? undefined}
    broken={isBroken(engine)}
    running={engine.in_flight}
  />
);

/** "–" where nothing is loaded that could be fast. */
export const speed = ({ tokens_per_second: rate, processes, upstreams }: Engine): string =>
  processes > 0 || upstreams.length > 0 ? texts.engines.speedOf(compact(rate.input), compact(rate.output)) : '–';

export function EngineFacts({ engine }: { engine: Engine }) {
  const now = useNow();
  const { engines } = texts;
  const isLoaded = engine.processes > 0;
  const rows: Detail[] = [
    [engines.columns.status, <EngineStatus key="status" engine={engine} />],
    [engines.columns.driver, engine.driver],
    !!engine.reason && [engine.status === 'unavailable' ? engines.reason : engines.lastProblem, engine.reason],
    !!engine.weights && [engines.columns.weights, <WeightsState key="weights" weights={engine.weights} />],
    isLoaded && [engines.columns.memory, bytes(engine.memory_bytes)],
    engine.planned_bytes > 0 && [
      engines.memoryAtMost,
      engines.memoryPlan(bytes(engine.planned_bytes), bytes(engine.context_bytes)),
    ],
    isLoaded && [engines.processes, `${engine.processes} (${engine.process_ids.join(', ')})`],
    isLoaded && [engines.loaded, engine.loaded_at === null ? '–' : ago(engine.loaded_at, now)],
    isLoaded && [engines.loadTime, engine.load_ms === null ? '–' : duration(engine.load_ms)],
    [engines.columns.queue, engines.queueOf(full(engine.in_flight), full(engine.queue_depth))],
    [engines.columns.speed, speed(engine)],
  ];
  return (
    <>
      <Details rows={rows} />
      {engine.upstreams.map((upstream) => (
        <div key={upstream.address} class="attempt">
          <div class="spread">
            <span class="mono">{upstream.address}</span>
            <Badge tone={upstream.healthy ? 'good' : 'bad'}>
              {upstream.healthy ? engines.healthy : engines.unhealthy}
            </Badge>
          </div>
          <div class="small muted">
            {upstream.kind} · {upstream.region} · {engines.inFlight(upstream.in_flight, upstream.max_concurrency)}
            {' · '}
            {engines.breaker(upstream.breaker)}
          </div>
          {(upstream.problem ?? upstream.last_error) && (
            <div class="small bad">{upstream.problem ?? upstream.last_error}</div>
          )}
        </div>
      ))}
    </>
  );
}
