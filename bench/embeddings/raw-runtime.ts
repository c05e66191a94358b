/**
 * Only onnxruntime: the parent sends token ids, results are dropped. Repeats its batches until the parent stops it, then reports the
 * number of tokens and the time.
 */
import { InferenceSession, Tensor } from 'onnxruntime-node';

export interface RawSetup {
  model: string;
  threads: number;
  /** Ids with special tokens. */
  sequences: number[][];
}

export interface RawOrder {
  seconds: number;
  /** Rows times columns of one run. */
  tokenBudget: number;
}

export interface RawResult {
  tokens: number;
  seconds: number;
}

const { model, threads, sequences } = await new Promise<RawSetup>((resolve) => process.once('message', resolve));
const session = await InferenceSession.create(model, {
  graphOptimizationLevel: 'all',
  executionMode: 'sequential',
  intraOpNumThreads: threads,
  interOpNumThreads: 1,
});

interface Batch {
  tokens: number;
  feeds: Record<string, Tensor>;
}

/** Sorted by length to avoid padding. */
function batches(tokenBudget: number): Batch[] {
  const sorted = sequences.toSorted((left, right) => left.length - right.length);
  const result: Batch[] = [];
  while (sorted.length > 0) {
    const columns = sorted.at(-1)?.length ?? 0;
    const rows = sorted.splice(-Math.max(1, Math.floor(tokenBudget / columns)));
    const fill = (value: (row: number[], column: number) => number) =>
      new Tensor(
        'int64',
        BigInt64Array.from(
          rows.flatMap((row) => Array.from({ length: columns }, (_, column) => BigInt(value(row, column)))),
        ),
        [rows.length, columns],
      );
    const inputs: Record<string, Tensor> = {
      input_ids: fill((row, column) => row[column] ?? 0),
      attention_mask: fill((row, column) => Number(column < row.length)),
      token_type_ids: fill(() => 0),
    };
    result.push({
      tokens: rows.reduce((sum, row) => sum + row.length, 0),
      feeds: Object.fromEntries(session.inputNames.map((name) => [name, inputs[name] as Tensor])),
    });
  }
  return result;
}

const prepared = new Map<number, Batch[]>();
process.on('message', async ({ seconds, tokenBudget }: RawOrder) => {
  const work = prepared.get(tokenBudget) ?? batches(tokenBudget);
  prepared.set(tokenBudget, work);
  const began = performance.now();
  let tokens = 0;
  for (let index = 0; performance.now() - began < seconds * 1000; index += 1) {
    const batch = work[index % work.length] as Batch;
    await session.run(batch.feeds);
    tokens += batch.tokens;
  }
  process.send?.({ tokens, seconds: (performance.now() - began) / 1000 } satisfies RawResult);
});
process.send?.('ready');
