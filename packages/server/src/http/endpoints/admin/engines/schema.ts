import { type TSchema, Type } from 'typebox';
import { shortText } from '../../../body/bounded.ts';

const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

const WeightsShape = Type.Object({
  status: Type.Enum(['present', 'absent', 'pulling', 'unreachable']),
  bytes_on_disk: Type.Integer(),
  total_bytes: nullable(Type.Integer()),
  reason: nullable(Type.String()),
  retry_at: nullable(Type.String()),
});

const UpstreamShape = Type.Object({
  address: Type.String({ description: 'Host and port' }),
  kind: Type.String(),
  region: Type.String(),
  healthy: Type.Boolean({ description: 'It takes requests' }),
  breaker: Type.String(),
  in_flight: Type.Integer(),
  max_concurrency: Type.Integer(),
  problem: nullable(Type.String()),
  last_error: nullable(Type.String()),
});

export const EngineShape = Type.Object({
  object: Type.Literal('engine'),
  model: Type.String({ description: 'Slug' }),
  version: Type.String(),
  driver: Type.String({ description: 'The runtime, or `remote`' }),
  status: Type.Enum(['ready', 'loading', 'unloading', 'cold', 'unavailable']),
  reason: nullable(Type.String()),
  process_ids: Type.Array(Type.Integer()),
  processes: Type.Integer({ description: 'Engine processes that run' }),
  memory_bytes: Type.Integer(),
  planned_bytes: Type.Integer({
    description:
      'An estimate of the most that `memory_bytes` becomes; 0 when it is not loaded. For the moment in which a context grows, a copy of what it held comes on top: less than `context_bytes`',
  }),
  context_bytes: Type.Integer({
    description: 'The part of `planned_bytes` for the contexts of requests, which is taken when they need it',
  }),
  device: Type.Union(
    [
      Type.Object({
        backend: Type.String({ description: '`cpu`, or what drives the GPUs, such as `cuda`' }),
        names: Type.Array(Type.String(), { description: 'Of the GPUs' }),
        gpu_layers: Type.Integer({ description: 'Layers of the model that are on GPUs' }),
        layers: Type.Integer(),
        video_bytes: Type.Integer(),
      }),
      Type.Null(),
    ],
    { description: 'What it runs on; null when it is not loaded on this server' },
  ),
  loaded_at: nullable(Type.String()),
  load_ms: nullable(Type.Integer()),
  in_flight: Type.Integer(),
  queue_depth: Type.Integer(),
  tokens_per_second: Type.Object(
    { input: Type.Number(), output: Type.Number() },
    { description: 'Of requests that ended in the last 10 seconds, on this server' },
  ),
  weights: Type.Union([WeightsShape, Type.Null()], { description: 'Null: only upstreams serve it' }),
  upstreams: Type.Array(UpstreamShape),
});

export const EngineList = Type.Object({ object: Type.Literal('list'), data: Type.Array(EngineShape) });

export const ModelReference = Type.Object(
  { model: shortText({ minLength: 1, description: 'Slug, or slug@version' }) },
  { additionalProperties: false },
);
