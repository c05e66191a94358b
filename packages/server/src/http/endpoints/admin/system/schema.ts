import { Type } from 'typebox';

export const SystemShape = Type.Object({
  object: Type.Literal('system'),
  version: Type.String(),
  region: Type.String(),
  started_at: Type.String(),
  ready: Type.Boolean(),
  reasons: Type.Array(Type.String(), { description: 'Why the service cannot take requests' }),
  runtime: Type.Object({
    node: Type.String(),
    platform: Type.String(),
    arch: Type.String(),
    cpus: Type.Integer(),
    memory_bytes: Type.Integer({ description: 'Of the machine or the container' }),
    free_memory_bytes: Type.Integer(),
    process_memory_bytes: Type.Integer({ description: 'Of the server, without engine processes' }),
  }),
  store: Type.Object({ kind: Type.String() }),
  readers: Type.Object(
    {
      sealed: Type.Union([Type.Boolean(), Type.Null()], { description: 'null: none has run yet' }),
      reason: Type.Union([Type.String(), Type.Null()], { description: 'Why not' }),
    },
    { description: 'Whether the kernel confines the processes that read audio and PDF files' },
  ),
  disk: Type.Object({ free_bytes: Type.Integer(), reserve_bytes: Type.Integer(), low: Type.Boolean() }),
  configuration: Type.Record(Type.String(), Type.Unknown(), {
    description: 'The settings in force, as in baobab.yaml, secrets masked',
  }),
});
