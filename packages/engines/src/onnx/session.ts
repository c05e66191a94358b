import { readFile } from 'node:fs/promises';
import type { InferenceSession, Tensor } from 'onnxruntime-node';
import { withRowWiseRanges } from './graph/row-wise.ts';

/** Sequences of one micro-batch. */
export interface EncoderBatch {
  sequences: readonly EncoderSequence[];
  /** Columns: the longest of them; shorter ones are padded. */
  length: number;
}

export interface EncoderSequence {
  /** With special tokens. */
  ids: Int32Array;
  /** Where the second text of a pair begins, and its token type. */
  second?: { from: number; type: number } | undefined;
}

/** Valid until the next run. */
export interface EncoderOutput {
  data: Float32Array;
  /** [rows, columns, width], or [rows, width] for a classifier. */
  dims: readonly number[];
}

export interface EncoderSession extends AsyncDisposable {
  run(batch: EncoderBatch): Promise<EncoderOutput>;
}

export interface SessionOptions {
  model: string;
  threads: number;
  padId: number;
  /** Rewrite dynamic quantisation so that sequences of one batch do not affect each other. */
  rowWiseRanges: boolean;
  /** Names of the wanted output, the first that the model has; or its first output. */
  outputs: readonly string[];
  /** It must have one of them. */
  exactOutput?: boolean;
}

/** 4 MB. Longer outputs are rare, and take far longer to compute than to allocate. */
const MAX_KEPT_FLOATS = 1 << 20;

/** The runtime with a model that it has loaded. */
export async function createRuntimeSession({
  model,
  threads,
  rowWiseRanges,
}: Pick<SessionOptions, 'model' | 'threads' | 'rowWiseRanges'>) {
  const runtime = await import('onnxruntime-node');
  const settings: InferenceSession.SessionOptions = {
    graphOptimizationLevel: 'all',
    executionMode: 'sequential',
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
  };
  const session = await (rowWiseRanges
    ? runtime.InferenceSession.create(withRowWiseRanges(await readFile(model)), settings)
    : runtime.InferenceSession.create(model, settings));
  return { runtime, session };
}

/** The first of the names that the model has. */
export function outputOf({ outputNames }: InferenceSession, wanted: readonly string[]): string {
  const found = wanted.find((name) => outputNames.includes(name));
  if (found !== undefined) return found;
  throw new Error(`the model has no output ${wanted.join(' or ')}; it has: ${outputNames.join(', ')}`);
}

export async function openSession(options: SessionOptions): Promise<EncoderSession> {
  const { padId, outputs, exactOutput = false } = options;
  const { runtime, session } = await createRuntimeSession(options);
  const output = outputOf(session, exactOutput ? outputs : [...outputs, ...session.outputNames]);
  const tensor = (data: BigInt64Array, batch: EncoderBatch) =>
    new runtime.Tensor('int64', data, [batch.sequences.length, batch.length]);
  /** Floats for each token, known after the first run; 0 for outputs that are not made of tokens. */
  let width: number | undefined;
  let kept = new Float32Array(0);

  /** Reuses the output buffer: half a megabyte of new memory for every run keeps the garbage collector busy. */
  function outputFor({ sequences, length }: EncoderBatch): Record<string, Tensor | null> {
    const size = sequences.length * length * (width ?? 0);
    if (width === undefined || size === 0 || size > MAX_KEPT_FLOATS) return { [output]: null };
    if (kept.length < size) kept = new Float32Array(size);
    return { [output]: new runtime.Tensor('float32', kept.subarray(0, size), [sequences.length, length, width]) };
  }

  return {
    async run(batch) {
      const feeds: Record<string, Tensor> = {};
      for (const name of session.inputNames) feeds[name] = tensor(column(name, batch, padId), batch);
      const result: InferenceSession.OnnxValueMapType = await session.run(feeds, outputFor(batch));
      const { data, dims } = result[output] as Tensor;
      width ??= dims.length === 3 && dims[1] === batch.length ? dims[2] : 0;
      return { data: data as Float32Array, dims };
    },
    [Symbol.asyncDispose]: () => session.release(),
  };
}

/** One input tensor. Written as 32-bit words: converting every id to a BigInt is many times slower. */
function column(name: string, { sequences, length }: EncoderBatch, padId: number): BigInt64Array {
  const words = new Int32Array(sequences.length * length * 2);
  sequences.forEach(({ ids, second }, row) => {
    let at = row * length * 2;
    const end = at + length * 2;
    switch (name) {
      case 'input_ids':
        for (let i = 0; i < ids.length; i++, at += 2) words[at] = ids[i] as number;
        if (padId !== 0) for (; at < end; at += 2) words[at] = padId;
        break;
      case 'attention_mask':
        for (let i = 0; i < ids.length; i++, at += 2) words[at] = 1;
        break;
      case 'token_type_ids':
        if (second) for (let i = second.from; i < ids.length; i++) words[at + i * 2] = second.type;
        break;
      case 'position_ids':
        for (let i = 0; i < length; i++, at += 2) words[at] = i;
        break;
      default:
        throw new Error(`the model has an unknown input '${name}'`);
    }
  });
  return new BigInt64Array(words.buffer);
}
