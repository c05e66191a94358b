/** How the vectors of tokens become one. */
export const POOLINGS = ['mean', 'cls', 'last'] as const;
export type Pooling = (typeof POOLINGS)[number];

/** Written by sentence-transformers; exports to ONNX often leave it out. */
export const POOLING_FILE = '1_Pooling/config.json';

const MODES: Readonly<Record<string, Pooling>> = {
  pooling_mode_cls_token: 'cls',
  pooling_mode_lasttoken: 'last',
  pooling_mode_mean_tokens: 'mean',
};

const CLS = /bge-|arctic-embed|mxbai-embed|gte-\w+-en-v1\.5|gte-multilingual|gte-modernbert/i;
const LAST = /qwen3-embedding|e5-mistral|gte-qwen/i;
const MEAN = /minilm|mpnet|\be5-|multilingual-e5|gte-(small|base|large)$|nomic-embed|jina-embeddings/i;

const poolingOfConfig = (config: Readonly<Record<string, unknown>>): Pooling | undefined =>
  Object.entries(MODES).find(([mode]) => config[mode] === true)?.[1];

/** What models of well-known families were trained with. */
function poolingFromName(name: string): Pooling | undefined {
  if (CLS.test(name)) return 'cls';
  if (LAST.test(name)) return 'last';
  return MEAN.test(name) ? 'mean' : undefined;
}

export interface PoolingChoice {
  /** For the catalog entry; `mean` is its default. */
  engine: { pooling: Pooling } | undefined;
  notes: readonly string[];
}

/** `config` is the content of `POOLING_FILE`, where there is one. */
export function choosePooling(
  name: string,
  given: Pooling | undefined,
  config: Readonly<Record<string, unknown>> | undefined,
): PoolingChoice {
  const found = given ?? (config && poolingOfConfig(config)) ?? poolingFromName(name);
  return {
    engine: found === undefined || found === 'mean' ? undefined : { pooling: found },
    notes:
      found === undefined
        ? [
            'nothing says how it pools vectors, so mean is assumed; if its card says otherwise, add it with --pooling cls or last',
          ]
        : [],
  };
}
