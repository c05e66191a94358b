import { basename } from 'node:path';
import { type Modality, TASKS_OF_MODALITY } from '@baobab/core/domain/model.ts';
import type { Pooling } from './pooling.ts';
import { AddError } from './reference.ts';

/** Set by the operator where a property cannot be detected, or is detected wrongly. */
export interface AddOptions {
  slug?: string | undefined;
  modality?: Modality | undefined;
  contextLength?: number | undefined;
  dimensions?: number | undefined;
  /** Pooling of an embedding model in ONNX. */
  pooling?: Pooling | undefined;
  /** The upstream's name for the model, where it serves several. */
  name?: string | undefined;
  /** A file with the key that the upstream wants. */
  apiKeyFile?: string | undefined;
}

/** A model as it will be written, with the names of the files. */
export interface ModelDraft {
  /** What was assumed, for the operator. */
  notes?: readonly string[] | undefined;
  /** A longer name, for when the catalog has another model under the slug. */
  longSlug?: string | undefined;
  entry: { slug: string; modality: Modality } & Record<string, unknown>;
  upstream?: ({ model: string; url: string; kind: string; name: string } & Record<string, unknown>) | undefined;
}

/** What to say about an ONNX model that is not complete. */
export const ONNX_FILES =
  "model.onnx or model_quantized.onnx, CLIP's text_model.onnx and vision_model.onnx, or Whisper's encoder_model.onnx and decoder_model_merged.onnx, in it or in its folder onnx";

export const modalityOfTask = (task: string | undefined): Modality | undefined =>
  (Object.keys(TASKS_OF_MODALITY) as Modality[]).find((each) =>
    (TASKS_OF_MODALITY[each] as readonly string[]).includes(task ?? ''),
  );

/** Whisper can only transcribe, and nothing else can. Other models have uses that their weights do not tell, such as reranking. */
export function checkModality(given: Modality | undefined, task: string | undefined): void {
  if (given === undefined || task === undefined) return;
  const isWhisper = task === 'transcription';
  if (isWhisper === (given === 'audio')) return;
  throw new AddError(
    isWhisper
      ? `this is a Whisper model, which can only be added with --modality audio, not ${given}; leave the option out`
      : 'only Whisper models can be added with --modality audio, and this is none',
  );
}

/** The name of a GGUF file without its folder, its ending and the number of a part. */
export const ggufName = (path: string): string => basename(path, '.gguf').replace(/-\d{5}-of-\d{5}$/, '');

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
