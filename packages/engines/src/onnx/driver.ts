import { readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { EngineTask } from '@baobab/core/domain/model.ts';
import {
  count,
  type Driver,
  ENCODER_SLOTS,
  fileName,
  type LayoutShape,
  type MachineShape,
  PROCESS_BYTES,
  slotsWithRoom,
  totalFileBytes,
  type WeightFacts,
} from '@baobab/core/engine/driver.ts';
import { NEEDED_FOR_LIMITS } from '@baobab/core/sandbox/privileges.ts';
import { type Static, Type } from 'typebox';

const encoder = {
  /** For Whisper, the encoder. */
  model: fileName,
  tokenizer: fileName,
  /**
   * For a dynamically quantised model, `batch` (default) is fastest, but texts computed together change each other's vectors
   * slightly; `token` gives a text the same vector in every batch.
   */
  activationRanges: Type.Optional(Type.Enum(['batch', 'token'])),
};
/** Put before every input and counted as tokens, as some encoders were trained with. */
const inputPrefix = Type.Optional(Type.String());
const pooling = Type.Optional(Type.Enum(['mean', 'cls', 'last']));
/** Encodes images into the space of the texts, as in CLIP models. */
const imageModel = Type.Optional(fileName);
/** The match that scores one half: between that of answers and that of other texts. */
const matchMiddle = Type.Optional(Type.Number({ minimum: 0, maximum: 1 }));
/** How fast scores rise around the middle. */
const matchSteepness = Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 100 }));
/** Shares of the match that come from the cosine of the pooled vectors, and from the query's tokens that the document has. */
const matchText = Type.Optional(Type.Number({ minimum: 0, maximum: 0.5 }));
const matchWords = Type.Optional(Type.Number({ minimum: 0, maximum: 0.5 }));

const options = Type.Object({
  ...encoder,
  inputPrefix,
  pooling,
  imageModel,
  matchMiddle,
  matchSteepness,
  matchText,
  matchWords,
  decoder: Type.Optional(fileName),
});
export type OnnxOptions = Static<typeof options>;

const settings = {
  onnxProcesses: count(0, 'Processes for each onnx model; 0: chosen from the cores'),
  onnxThreads: count(0, 'Threads in each onnx process; 0: chosen from the cores'),
};
const settingsObject = Type.Object(settings);
type OnnxSettings = Static<typeof settingsObject>;

/** Each process holds the weights once more. Where that takes more of the memory than this, processes have several threads. */
const MEMORY_SHARE = 0.4;
/** With fewer cores one thread for each process was the fastest in every measurement. */
const MIN_TRIAL_CORES = 4;
/** Requests of one account that a process can combine into full batches. */
const SLOTS_PER_PROCESS = 32;
/** One window runs at a time, but requests take turns window by window: an hour of audio must not block a short clip. */
const TRANSCRIPTION_SLOTS = 12;

/** Weights are packed once more for the processor, and activations come on top. Measured: bge-small int8 153 MB, estimated 157. */
const WEIGHTS_FACTOR = 1.8;

/** Windows of audio that Whisper decodes together: a token for four takes 1.7 times as long as for one (tiny and base, 1 thread). */
export const WINDOWS_TOGETHER = 4;
/** Frames that Whisper's encoder gives for 30 s of audio. */
const FRAMES = 1_500;
const FLOAT_BYTES = 4;
/** What the runtime and the vocabulary take besides. */
const WHISPER_BYTES = 256 * 1024 * 1024;
/** The output projection is unpacked to floats in both branches of the decoder. */
const PROJECTIONS = 2.2;
/** Attention matrices of a layer that exist at a time. */
const ATTENTIONS = 2;
/** How often the keys and values of a window are in memory: the runtime's own buffers, and copies when a window leaves the batch. */
const CACHES = 2.3;

/**
 * To decode the largest images, one at a time. Measured in all, with transparent WebPs of 16 and progressive JPEGs of 64 million pixels: 749
 * MB for CLIP ViT-B/32 in int8, planned 763. The process that decodes them takes 47 MB besides.
 */
const IMAGE_BYTES = 368 * 1024 * 1024;

const positive = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;

/** XLM-R and its kin have two more positions than they can use. */
const positions = (value: unknown): number | undefined => {
  const count = positive(value);
  return count !== undefined && count % 512 === 2 ? count - 2 : count;
};

type Config = Readonly<Record<string, unknown>>;

function readConfig(directory: string): Config | undefined {
  try {
    return JSON.parse(readFileSync(join(directory, 'config.json'), 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * Memory of Whisper besides its weights, with the largest batch. Measured in all, four windows at a time: tiny 0.91, base 1.24 and small 2.32
 * GB, planned 0.90, 1.22 and 2.40. One window after the other, however long the audio, takes 0.70, 0.94 and 1.67 GB.
 */
function whisperBytes(config: Config): number {
  const number = (name: string) => positive(config[name]) ?? 0;
  const width = number('d_model');
  const projection = number('vocab_size') * width * FLOAT_BYTES;
  const attention = number('encoder_attention_heads') * FRAMES ** 2 * FLOAT_BYTES;
  const cache = number('decoder_layers') * 2 * FRAMES * width * FLOAT_BYTES;
  return WHISPER_BYTES + projection * PROJECTIONS + attention * ATTENTIONS + cache * CACHES * WINDOWS_TOGETHER;
}

/** As exported by the usual tools, the fastest first; in the folder itself or in `onnx/`. */
const MODEL_FILES = ['model_quantized.onnx', 'model.onnx'];
const TEXT_ENCODERS = ['text_model_quantized.onnx', 'text_model.onnx'];
const IMAGE_ENCODERS = ['vision_model_quantized.onnx', 'vision_model.onnx'];
const WHISPER_ENCODERS = ['encoder_model_quantized.onnx', 'encoder_model.onnx', 'encoder.onnx'];
const WHISPER_DECODERS = ['decoder_model_merged_quantized.onnx', 'decoder_model_merged.onnx', 'decoder.onnx'];

function taskOf({ architectures, model_type: type }: Config): EngineTask {
  if (type === 'whisper') return 'transcription';
  const ranks =
    Array.isArray(architectures) && architectures.some((each) => `${each}`.endsWith('ForSequenceClassification'));
  return ranks ? 'cross-encoder' : 'embedding';
}

/** Newer exports of CLIP leave out what is as in the original model. */
const CLIP_POSITIONS = 77;

function factsOf(config: Config | undefined): WeightFacts {
  if (config === undefined) return {};
  if (config.vision_config !== undefined && config.projection_dim !== undefined) {
    const text = (config.text_config ?? {}) as Config;
    const usual = config.model_type === 'clip' ? CLIP_POSITIONS : undefined;
    return {
      contextLength: positions(text.max_position_embeddings) ?? usual,
      dimensions: positive(config.projection_dim),
      task: 'embedding',
    };
  }
  return {
    // Whisper's limit is that of its answer.
    contextLength: positions(config.max_position_embeddings ?? config.max_target_positions),
    dimensions: positive(config.hidden_size),
    task: taskOf(config),
  };
}

/** Large weights may be in a file beside the model. */
const weightFiles = ({ model, imageModel, decoder }: OnnxOptions): string[] =>
  [model, imageModel, decoder].flatMap((file) => (file === undefined ? [] : [file, `${file}_data`]));

const imageBytes = ({ imageModel }: OnnxOptions): number => (imageModel === undefined ? 0 : IMAGE_BYTES);

const processBytes = (options: OnnxOptions, directory: string): number => {
  const sizes = weightFiles(options).map(
    (file) => statSync(join(directory, file), { throwIfNoEntry: false })?.size ?? 0,
  );
  return PROCESS_BYTES + sizes.reduce((sum, size) => sum + size, 0) * WEIGHTS_FACTOR + imageBytes(options);
};

/** Layouts that use the whole processor, those with the most processes first: 16 cores as 16 × 1, 8 × 2 and 4 × 4. */
function layouts(options: OnnxOptions, { cores, physicalCores, memoryBytes, directory }: MachineShape): LayoutShape[] {
  const most = Math.max(1, Math.floor((memoryBytes * MEMORY_SHARE) / processBytes(options, directory)));
  const shapes = [1, 2, 4].map((threads) => ({ processes: Math.floor(cores / threads), threads }));
  const halved = physicalCores < cores ? [{ processes: physicalCores, threads: 1 }] : [];
  return [...shapes, ...halved].filter(({ processes }) => processes >= 1 && processes <= most);
}

function guess(options: OnnxOptions, machine: MachineShape): LayoutShape {
  return layouts(options, machine)[0] ?? { processes: 1, threads: machine.cores };
}

export const onnx = {
  name: 'onnx',
  tasks: {
    embedding: { ...encoder, pooling, inputPrefix, imageModel },
    'late-interaction': { ...encoder, pooling, matchMiddle, matchSteepness, matchText, matchWords },
    'cross-encoder': encoder,
    transcription: { model: fileName, decoder: fileName, tokenizer: fileName },
  },
  settings,
  local: {
    module: new URL('./load.ts', import.meta.url),
    recognise(fileNames) {
      const find = (names: readonly string[]) =>
        [...names, ...names.map((name) => `onnx/${name}`)].find((name) => fileNames.includes(name));
      const tokenizer = 'tokenizer.json';
      // Folders of such pairs often have both encoders in one file too, which cannot run on its own kind of input.
      const [text, imageModel] = [find(TEXT_ENCODERS), find(IMAGE_ENCODERS)];
      if (text !== undefined && imageModel !== undefined) return { model: text, imageModel, tokenizer };
      const model = find(MODEL_FILES);
      if (model !== undefined) return { model, tokenizer };
      const [encoder, decoder] = [find(WHISPER_ENCODERS), find(WHISPER_DECODERS)];
      return encoder === undefined || decoder === undefined ? undefined : { model: encoder, decoder, tokenizer };
    },
    files({ task, options: { model, imageModel, decoder, tokenizer } }) {
      if (task === 'transcription' && decoder !== undefined) {
        return [model, decoder, tokenizer, 'config.json', 'generation_config.json'];
      }
      return imageModel === undefined ? [model, tokenizer] : [model, imageModel, tokenizer, 'preprocessor_config.json'];
    },
    // Images are decoded in a process of their own.
    rights: (_directory, { options: { imageModel } }) =>
      imageModel === undefined ? {} : { readable: NEEDED_FOR_LIMITS, childProcesses: true },
    layout({ task, options }, { onnxProcesses, onnxThreads }, machine) {
      if (task === 'transcription') {
        const processes = onnxProcesses || 1;
        const threads = onnxThreads || Math.max(1, Math.floor(machine.cores / processes));
        return { processes, threads, parallelSequences: 1, ...slotsWithRoom(TRANSCRIPTION_SLOTS) };
      }
      const best = machine.measured ?? guess(options, machine);
      const processes = onnxProcesses || best.processes;
      const chosen = processes === best.processes ? best.threads : Math.max(1, Math.floor(machine.cores / processes));
      const slots = slotsWithRoom(Math.max(ENCODER_SLOTS, SLOTS_PER_PROCESS * processes));
      return { processes, threads: onnxThreads || chosen, parallelSequences: 1, ...slots };
    },
    trials: {
      module: new URL('./layout/trials.ts', import.meta.url),
      candidates({ task, options }, { onnxProcesses, onnxThreads }, machine) {
        if (task === 'transcription' || onnxProcesses !== 0 || onnxThreads !== 0) return [];
        const { imageModel } = options as OnnxOptions;
        // The texts of a trial are longer than those that CLIP takes.
        if (machine.cores < MIN_TRIAL_CORES || imageModel !== undefined) return [];
        return layouts(options as OnnxOptions, machine);
      },
    },
    facts: ({ options: { model, imageModel } }, directory) => ({
      ...factsOf(readConfig(directory) ?? readConfig(join(directory, dirname(model)))),
      ...(imageModel !== undefined && { images: true }),
    }),
    previewFacts: ({ config }) => factsOf(config),
    async memoryBytes({ task, options }, { directory, layout }) {
      const weightsBytes = await totalFileBytes(directory, weightFiles(options));
      const moreBytes = task === 'transcription' ? whisperBytes(readConfig(directory) ?? {}) : imageBytes(options);
      return layout.processes * (PROCESS_BYTES + weightsBytes * WEIGHTS_FACTOR + moreBytes);
    },
  },
} satisfies Driver<OnnxOptions, OnnxSettings>;
