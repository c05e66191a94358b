import type { Modality } from '../../domain/model.ts';

/** Answers of the operator to what cannot be found out, and corrections of what was. */
export interface AddOptions {
  slug?: string | undefined;
  modality?: Modality | undefined;
  contextLength?: number | undefined;
  dimensions?: number | undefined;
  /** The upstream's name for the model, where it serves several. */
  name?: string | undefined;
  /** A file with the key that the upstream wants. */
  apiKeyFile?: string | undefined;
}

/** A model as it will be written, with the names of the files. */
export interface ModelDraft {
  entry: { slug: string; modality: Modality } & Record<string, unknown>;
  upstream?: ({ model: string; url: string; kind: string; name: string } & Record<string, unknown>) | undefined;
}

/** As exported by the usual tools, the fastest first. */
export const ONNX_MODELS = ['onnx/model_quantized.onnx', 'onnx/model.onnx', 'model_quantized.onnx', 'model.onnx'];

const RERANK = /rerank|ranker|cross-encoder/i;
const EMBEDDING = /embed|\bbge\b|bge-|\be5\b|e5-|\bgte\b|gte-|minilm|nomic/i;
const AUDIO = /whisper|transcri/i;

/** A guess where nothing better is known. The operator sees it and can correct it. */
export function modalityFromName(name: string): Modality {
  if (RERANK.test(name)) return 'rerank';
  if (AUDIO.test(name)) return 'audio';
  return EMBEDDING.test(name) ? 'embedding' : 'chat';
}

export const withoutUndefined = <T extends object>(fields: T): T =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
