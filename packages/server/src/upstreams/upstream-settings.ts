import { type Static, Type } from 'typebox';
import { UPSTREAM_KINDS } from './dialects/dialects.ts';
import { LONGEST_TIMER_MS } from './routing/deadlines.ts';

const milliseconds = (value: number, description: string) =>
  Type.Integer({ minimum: 1, maximum: LONGEST_TIMER_MS, default: value, description });

/** An entry of `upstreams` in the configuration. */
export const UpstreamSchema = Type.Object(
  {
    model: Type.String({ description: 'Slug in the catalog, with an optional pin' }),
    url: Type.String({ description: 'Base address including /v1, for example http://127.0.0.1:8000/v1' }),
    discover: Type.Optional(
      Type.Enum(['dns', 'srv'], {
        description:
          'Several servers behind one address: dns, every address of the host; srv, the targets of its SRV record',
      }),
    ),
    kind: Type.Enum(UPSTREAM_KINDS, { default: 'openai' }),
    name: Type.Optional(Type.String({ description: "The upstream's name for the model; the slug by default" })),
    apiKey: Type.Optional(
      Type.String({ minLength: 1, description: 'Sent as a bearer token to this upstream', secret: true }),
    ),
    apiKeyFile: Type.Optional(
      Type.String({ minLength: 1, description: 'Sent as a bearer token to this upstream; read from this file' }),
    ),
    region: Type.Optional(Type.String({ description: 'Region of the upstream; that of this server by default' })),
    allowLinkLocal: Type.Optional(
      Type.Boolean({
        description: 'It may be at a link-local address (169.254.0.0/16, fe80::/10) or at that of a metadata service',
      }),
    ),
    maxConcurrency: Type.Integer({ minimum: 1, default: 64, description: 'Requests at a time' }),
    weight: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        description: 'Share of the requests, compared with other upstreams of the model; max_concurrency by default',
      }),
    ),
    connectTimeoutMs: milliseconds(5_000, 'Until connected'),
    firstByteTimeoutMs: milliseconds(60_000, 'Until the answer begins'),
    totalTimeoutMs: milliseconds(600_000, 'Until the answer ends'),
  },
  { additionalProperties: false },
);

export type UpstreamSettings = Static<typeof UpstreamSchema>;
