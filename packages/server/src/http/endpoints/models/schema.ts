import { pricesToFields } from '@baobab/core/domain/measures.ts';
import { MODALITIES } from '@baobab/core/domain/model.ts';
import { SERVING_STATUSES } from '@baobab/core/domain/model-order.ts';
import { isoTimeOrNull } from '@baobab/core/domain/time/dates.ts';
import { type Static, type TSchema, Type } from 'typebox';
import type { CatalogModel, Serving } from '../../../services/catalog/catalog.ts';
import { priceFields } from '../../answer/measure-schema.ts';
import { shortText } from '../../body/bounded.ts';

const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const Model = Type.Object({
  id: Type.String(),
  object: Type.Literal('model'),
  created: Type.Integer(),
  owned_by: Type.String(),
  modality: Type.Enum([...MODALITIES]),
  description: Type.String(),
  context_length: Type.Integer(),
  max_output_tokens: nullable(Type.Integer()),
  dimensions: nullable(Type.Integer()),
  regions: Type.Array(Type.String()),
  capabilities: Type.Object({
    tools: Type.Boolean(),
    json_mode: Type.Boolean(),
    vision: Type.Boolean(),
    structured_output: Type.Boolean(),
  }),
  pricing: Type.Object(priceFields),
  deprecated_at: nullable(Type.String()),
  version: Type.String(),
  versions: Type.Array(
    Type.Object({
      version: Type.String(),
      deprecated_at: nullable(Type.String()),
      retired_at: nullable(Type.String()),
    }),
  ),
  hosting: Type.Literal('shared'),
  status: Type.Enum([...SERVING_STATUSES]),
  status_reason: Type.Optional(shortText({ description: 'Why it is unavailable' })),
  device: Type.Optional(
    Type.Object(
      {
        backend: Type.String({ description: 'cpu, or what drives the GPUs, such as cuda' }),
        gpus: Type.Array(Type.String()),
        gpu_layers: Type.Integer({ description: 'Layers of the model that are on GPUs' }),
        layers: Type.Integer(),
        vram_bytes: Type.Integer({ description: 'Memory of GPUs that it takes' }),
      },
      { description: 'What it runs on while it is loaded here; only for keys with the scope admin' },
    ),
  ),
  languages: Type.Array(Type.String()),
  license: Type.String(),
  aliases: Type.Array(Type.String(), { description: 'Other names under which requests may ask for this model' }),
});

export const ModelList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(Model),
  models: Type.Optional(Type.Array(Type.Unknown(), { description: 'Always empty, and only for Codex' })),
});

export const ModelQuery = Type.Object({
  modality: Type.Optional(Type.Enum([...MODALITIES], { description: 'Only models of this modality' })),
  region: Type.Optional(shortText({ description: 'Only models that are served in this region' })),
  provider: Type.Optional(shortText({ description: 'Only slugs that begin with this' })),
  status: Type.Optional(
    Type.Enum([...SERVING_STATUSES, 'all'], {
      description: 'Only models in this state; `all` is the whole catalog. Without it: models that are served here',
    }),
  ),
  client_version: Type.Optional(shortText({ description: 'Sent by Codex' })),
});

const wireDevice = ({ backend, names, gpuLayers, layers, videoBytes }: NonNullable<Serving['device']>) => ({
  backend,
  gpus: [...names],
  gpu_layers: gpuLayers,
  layers,
  vram_bytes: videoBytes,
});

/** For everyone: without hosts and paths. */
const reasonFor = ({ status, remedy }: Serving): string | undefined =>
  status === 'unavailable' ? (remedy ?? 'nothing that serves it answers at the moment') : undefined;

/** `forOperators`: with what a model runs on, and a reason that may name hosts and paths. */
export function toWire(
  { entry, version, serving, aliases }: CatalogModel,
  { forOperators = false }: { forOperators?: boolean } = {},
): Static<typeof Model> {
  const { capabilities, pricing } = entry;
  const reason = (forOperators ? serving.reason : undefined) ?? reasonFor(serving);
  return {
    id: entry.slug,
    object: 'model',
    created: entry.created,
    owned_by: entry.provider,
    modality: entry.modality,
    description: entry.description,
    context_length: entry.contextLength,
    max_output_tokens: entry.maxOutputTokens,
    dimensions: entry.dimensions,
    regions: [...serving.regions],
    capabilities: {
      tools: capabilities.tools,
      json_mode: capabilities.jsonMode,
      vision: capabilities.vision,
      structured_output: capabilities.structuredOutput,
    },
    pricing: pricesToFields(pricing),
    deprecated_at: isoTimeOrNull(version.deprecatedAt),
    version: version.version,
    versions: entry.versions.map((each) => ({
      version: each.version,
      deprecated_at: isoTimeOrNull(each.deprecatedAt),
      retired_at: isoTimeOrNull(each.retiredAt),
    })),
    hosting: 'shared',
    status: serving.status,
    ...(reason !== undefined && { status_reason: reason }),
    ...(forOperators && serving.device !== undefined && { device: wireDevice(serving.device) }),
    languages: [...entry.languages],
    license: entry.license,
    aliases: [...aliases],
  };
}
