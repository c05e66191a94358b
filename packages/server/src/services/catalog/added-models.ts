import type { ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import type { Modality } from '@baobab/core/domain/model.ts';

/** What cannot always be found out from the weights or the upstream. */
export interface AddModelOptions {
  slug?: string | undefined;
  modality?: Modality | undefined;
  contextLength?: number | undefined;
  dimensions?: number | undefined;
  /** Pooling of an embedding model in ONNX. */
  pooling?: 'mean' | 'cls' | 'last' | undefined;
  /** The upstream's name for the model. */
  name?: string | undefined;
}

/** Models that operators add and remove while the service runs. */
export interface AddedModelsService {
  /** `source` is `hf:owner/repo:Q4_K_M`, a path or the address of an upstream. Returns the slug; the model can be used at once. */
  add(source: string, options: AddModelOptions, by: ChangeOrigin): Promise<string>;
  /** Throws 404 for a model that was not added. */
  remove(slug: string, by: ChangeOrigin): Promise<void>;
}
