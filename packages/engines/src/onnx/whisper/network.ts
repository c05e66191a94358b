import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { withOutputs } from '../graph/onnx.ts';

/** What `config.json` says of the shapes. */
export interface NetworkShape {
  decoderLayers: number;
  heads: number;
  modelSize: number;
  melBins: number;
  vocabularySize: number;
}

/** Sequences that are decoded side by side. They share one position, because the export has no attention mask. */
export interface DecoderState {
  readonly rows: number;
  /** Logits of every position of the last call: [rows, positions, vocabulary]. */
  readonly logits: Float32Array;
  readonly positions: number;
  readonly past: Readonly<Record<string, Tensor>>;
}

export interface Network {
  /** Log-mel features of one window → encoder states. */
  encode(features: Float32Array): Promise<Tensor>;
  /** Reads a prefix of one length for each window. */
  start(hidden: readonly Tensor[], prefixes: readonly (readonly number[])[]): Promise<DecoderState>;
  /** One more token for each row. */
  step(state: DecoderState, tokens: readonly number[]): Promise<DecoderState>;
  /** The same state with these rows only. */
  select(state: DecoderState, rows: readonly number[]): DecoderState;
  /** Attention of each token over the encoder's frames, [tokens, frames] for each of the heads asked for. */
  crossAttentions(
    hidden: Tensor,
    tokens: readonly number[],
    heads: readonly (readonly [layer: number, head: number])[],
  ): Promise<{ frames: number; weights: readonly Float32Array[] }>;
  release(): Promise<void>;
}

export interface NetworkFiles {
  directory: string;
  encoder: string;
  decoder: string;
  threads: number;
}

const HIDDEN = 'last_hidden_state';

/** Weights beside the graph are found by its path only, so such a graph stays as it is. */
async function openEncoder(path: string, options: InferenceSession.SessionOptions): Promise<InferenceSession> {
  if (existsSync(`${path}_data`)) return InferenceSession.create(path, options);
  return InferenceSession.create(withOutputs(await readFile(path), [HIDDEN]), options);
}

export async function openNetwork(files: NetworkFiles, shape: NetworkShape): Promise<Network> {
  const options: InferenceSession.SessionOptions = {
    intraOpNumThreads: files.threads,
    interOpNumThreads: 1,
    graphOptimizationLevel: 'all',
    logSeverityLevel: 3,
    // Plans for shapes that come again; it takes a second buffer as large as the first for the encoder, and the decoder's shapes never repeat.
    enableMemPattern: false,
    // The q8 export unpacks the whole output projection at every token (70 % of a step of whisper-tiny). Without the QDQ
    // passes the runtime folds that into a constant when it loads: same logits, half the time, about 200 MB more memory.
    extra: { session: { disable_quant_qdq: '1' } },
  };
  const [encoder, decoder] = await Promise.all([
    openEncoder(join(files.directory, files.encoder), options),
    InferenceSession.create(join(files.directory, files.decoder), options),
  ]);
  const { decoderLayers, heads, modelSize, vocabularySize } = shape;
  const headSize = modelSize / heads;
  const layers = Array.from({ length: decoderLayers }, (_, layer) => layer);
  const decoderCache = layers.flatMap((l) => [`${l}.decoder.key`, `${l}.decoder.value`]);
  const encoderCache = layers.flatMap((l) => [`${l}.encoder.key`, `${l}.encoder.value`]);
  const stepOutputs = ['logits', ...decoderCache.map((name) => `present.${name}`)];
  const startOutputs = [...stepOutputs, ...encoderCache.map((name) => `present.${name}`)];

  const flag = (on: boolean) => new Tensor('bool', Uint8Array.of(on ? 1 : 0), [1]);
  const ids = (rows: readonly (readonly number[])[]) =>
    new Tensor('int64', BigInt64Array.from(rows.flat(), BigInt), [rows.length, rows[0]?.length ?? 0]);
  const emptyPast = (rows: number) =>
    Object.fromEntries(
      [...decoderCache, ...encoderCache].map((name) => [
        `past_key_values.${name}`,
        new Tensor('float32', new Float32Array(0), [rows, heads, 0, headSize]),
      ]),
    );
  const stateOf = (
    rows: number,
    positions: number,
    outputs: InferenceSession.ReturnType,
    past: Record<string, Tensor>,
  ) => {
    const next = { ...past };
    for (const [name, value] of Object.entries(outputs)) {
      if (name.startsWith('present.')) next[name.replace('present', 'past_key_values')] = value as Tensor;
    }
    return { rows, positions, logits: floats(outputs.logits as Tensor), past: next };
  };

  return {
    async encode(features) {
      const input = new Tensor('float32', features, [1, shape.melBins, features.length / shape.melBins]);
      const outputs = await encoder.run({ input_features: input }, [HIDDEN]);
      return outputs[HIDDEN] as Tensor;
    },

    async start(hidden, prefixes) {
      const rows = prefixes.length;
      const past = emptyPast(rows);
      const feeds = {
        input_ids: ids(prefixes),
        encoder_hidden_states: stack(hidden),
        use_cache_branch: flag(false),
        ...past,
      };
      return stateOf(rows, prefixes[0]?.length ?? 0, await decoder.run(feeds, startOutputs), past);
    },

    async step(state, tokens) {
      const feeds = {
        input_ids: ids(tokens.map((token) => [token])),
        // Unused once the cross-attention keys are cached, yet the graph quantises it at every step: one frame is cheapest.
        encoder_hidden_states: new Tensor('float32', new Float32Array(state.rows * modelSize), [
          state.rows,
          1,
          modelSize,
        ]),
        use_cache_branch: flag(true),
        ...state.past,
      };
      return stateOf(state.rows, 1, await decoder.run(feeds, stepOutputs), state.past);
    },

    select(state, rows) {
      const size = state.positions * vocabularySize;
      const logits = new Float32Array(rows.length * size);
      rows.forEach((row, i) => {
        logits.set(state.logits.subarray(row * size, (row + 1) * size), i * size);
      });
      const past = Object.fromEntries(
        Object.entries(state.past).map(([name, tensor]) => [name, selectRows(tensor, rows)]),
      );
      return { rows: rows.length, positions: state.positions, logits, past };
    },

    async crossAttentions(hidden, tokens, wanted) {
      const names = [...new Set(wanted.map(([layer]) => `cross_attentions.${layer}`))];
      const feeds = {
        input_ids: ids([tokens]),
        encoder_hidden_states: hidden,
        use_cache_branch: flag(false),
        ...emptyPast(1),
      };
      const outputs = await decoder.run(feeds, names);
      const frames = hidden.dims[1] ?? 0;
      const size = tokens.length * frames;
      const weights = wanted.map(([layer, head]) =>
        floats(outputs[`cross_attentions.${layer}`] as Tensor).slice(head * size, (head + 1) * size),
      );
      return { frames, weights };
    },

    async release() {
      await Promise.all([encoder.release(), decoder.release()]);
    },
  };
}

const floats = (tensor: Tensor) => tensor.data as Float32Array;

function stack(tensors: readonly Tensor[]): Tensor {
  const [first] = tensors;
  if (first === undefined) throw new Error('Nothing to decode');
  if (tensors.length === 1) return first;
  const data = new Float32Array(tensors.length * first.size);
  tensors.forEach((tensor, i) => {
    data.set(floats(tensor), i * first.size);
  });
  return new Tensor('float32', data, [tensors.length, ...first.dims.slice(1)]);
}

function selectRows(tensor: Tensor, rows: readonly number[]): Tensor {
  const size = tensor.size / (tensor.dims[0] ?? 1);
  const data = new Float32Array(rows.length * size);
  rows.forEach((row, i) => {
    data.set(floats(tensor).subarray(row * size, (row + 1) * size), i * size);
  });
  return new Tensor('float32', data, [rows.length, ...tensor.dims.slice(1)]);
}
