import type { BatchItem, EvaluationPriority, Token } from 'node-llama-cpp';
import { describe, expect, it } from 'vitest';
import type { AddonContext } from './addon.ts';
import { createDecodeLoop, type DecodeLoopOptions, type Step } from './decode-loop.ts';

/** A context whose batches end when the test says so, and what was done with it. */
function bed(fill?: DecodeLoopOptions['fill']) {
  const log: string[] = [];
  const batches: { end(): void; fail(error: Error): void }[] = [];
  let names: number[] = [];
  const context: AddonContext = {
    setThreads: (threads) => void log.push(`threads ${threads}`),
    initBatch() {
      names = [];
    },
    addToBatch(sequenceId, _position, tokens, outputs) {
      names.push(sequenceId);
      return outputs.length === 0 ? new Uint32Array() : Uint32Array.of(names.length * 10 + tokens.length);
    },
    decodeBatch() {
      log.push(`batch ${names.join(' ')}`);
      return new Promise((resolve, reject) => {
        batches.push({ end: resolve, fail: reject });
      });
    },
    sampleToken: (): Promise<never> => Promise.reject(new Error('not here')),
    removeTokenCellsFromSequence(sequenceId, from) {
      log.push(`remove ${sequenceId} from ${from}`);
      return true;
    },
    disposeSequence() {},
  };
  let broken: Error | undefined;
  const strategy = <T extends BatchItem>({ items }: { items: readonly T[] }) => {
    if (broken !== undefined) throw broken;
    return items.map((item) => ({ item, processAmount: item.tokens.length }));
  };
  const loop = createDecodeLoop({
    context,
    batching: { strategy },
    batchSize: 8,
    threads: () => 3,
    ...(fill && { fill }),
  });

  const step = (sequenceId: number, choose?: Step['choose']): Step => ({
    sequenceId,
    account: loop.accountOf({ accountId: 'one', priority: 'interactive' }),
    position: 0,
    tokens: [1 as Token],
    logits: [],
    evaluationPriority: 1 as EvaluationPriority,
    choose,
    computed: () => void log.push(`computed ${sequenceId}`),
    failed: (error) => void log.push(`failed ${sequenceId}: ${error instanceof Error ? error.message : error}`),
  });
  const breakStrategy = (error: Error | undefined) => {
    broken = error;
  };
  return { loop, log, step, breakStrategy, batch: (at: number) => batches[at] };
}

/** Until all that can happen without a batch has happened. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('the decode loop', () => {
  it('computes what is asked for in one turn together', async () => {
    const { loop, log, step } = bed();
    loop.add(step(0));
    loop.add(step(1));
    await settled();
    expect(log).toEqual(['threads 3', 'batch 0 1']);
  });

  it('adds idle rows in the order of the sequences, and forgets them, also when the batch fails', async () => {
    const { loop, log, step, batch } = bed(() => [
      { sequenceId: 2, position: 7 },
      { sequenceId: 0, position: 5 },
    ]);
    loop.add(step(1));
    await settled();
    batch(0)?.end();
    await settled();
    loop.add(step(3));
    await settled();
    batch(1)?.fail(new Error('no memory'));
    await settled();
    const removed = ['remove 2 from 7', 'remove 0 from 5'];
    const batches = [
      ['threads 3', 'batch 0 1 2', ...removed, 'computed 1'],
      ['threads 3', 'batch 0 2 3', ...removed, 'failed 3: no memory'],
    ];
    expect(log).toEqual(batches.flat());
  });

  it('starts no batch before all tokens of the last one are chosen', async () => {
    const { loop, log, step, batch } = bed();
    let chosen = () => {};
    const logits: number[] = [];
    const choose = ([index = -1]: Uint32Array) => {
      logits.push(index);
      return new Promise<void>((resolve) => {
        chosen = resolve;
      });
    };
    loop.add(step(0));
    loop.add(step(1, choose));
    await settled();
    batch(0)?.end();
    loop.add(step(2));
    await settled();
    expect(logits).toEqual([21]);
    expect(log.slice(2)).toEqual(['computed 0', 'computed 1']);
    chosen();
    await settled();
    expect(log.at(-1)).toBe('batch 2');
  });

  it('tells of a token when the next batch has started', async () => {
    const { loop, log, step, batch } = bed();
    const choose = async () => {
      loop.add(step(5));
      loop.afterStart(() => void log.push('told'));
    };
    loop.add(step(0, choose));
    await settled();
    batch(0)?.end();
    await settled();
    expect(log.slice(-2)).toEqual(['batch 5', 'told']);
  });

  it('tells of the last token too', async () => {
    const { loop, log, step, batch } = bed();
    loop.add(step(0, async () => loop.afterStart(() => void log.push('told'))));
    await settled();
    batch(0)?.end();
    await settled();
    expect(log.at(-1)).toBe('told');
  });

  it('fails the steps of a batch that fails, and works on', async () => {
    const { loop, log, step, batch } = bed();
    loop.add(step(0));
    loop.add(step(1));
    await settled();
    loop.add(step(2));
    batch(0)?.fail(new Error('no room'));
    await settled();
    expect(log.slice(2)).toEqual(['failed 0: no room', 'failed 1: no room', 'threads 3', 'batch 2']);
  });

  it('fails what waits when no batch can be chosen, and works on', async () => {
    const { loop, log, step, breakStrategy } = bed();
    breakStrategy(new Error('too many open files'));
    loop.add(step(0));
    loop.add(step(1));
    await settled();
    breakStrategy(undefined);
    loop.add(step(2));
    await settled();
    expect(log).toEqual(['failed 0: too many open files', 'failed 1: too many open files', 'threads 3', 'batch 2']);
  });

  it('removes a step that waits, but none that runs', async () => {
    const { loop, log, step, batch } = bed();
    const [running, waiting] = [step(0), step(1)];
    loop.add(running);
    await settled();
    loop.add(waiting);
    expect([loop.remove(running), loop.remove(waiting)]).toEqual([false, true]);
    batch(0)?.end();
    await settled();
    expect(log.at(-1)).toBe('computed 0');
  });

  it('runs other work on the context between two batches', async () => {
    const { loop, log, step, batch } = bed();
    loop.add(step(0));
    await settled();
    const erased = loop.between(() => log.push('erased'));
    const broken = loop.between(() => {
      throw new Error('not possible');
    });
    loop.add(step(1));
    expect(log).not.toContain('erased');
    batch(0)?.end();
    await erased;
    await expect(broken).rejects.toThrow('not possible');
    await settled();
    expect(log.slice(2)).toEqual(['computed 0', 'erased', 'threads 3', 'batch 1']);
  });

  it('lets a running batch end when it is closed, and takes no more', async () => {
    const { loop, log, step, batch } = bed();
    loop.add(step(0));
    await settled();
    loop.add(step(1));
    const closed = loop.close().then(() => log.push('closed'));
    await settled();
    expect(log.at(-1)).toBe('batch 0');
    batch(0)?.end();
    await closed;
    loop.add(step(2));
    await expect(loop.between(() => {})).rejects.toThrow('unloaded');
    await settled();
    const reason = 'The model is being unloaded';
    expect(log.slice(2)).toEqual(['computed 0', `failed 1: ${reason}`, 'closed', `failed 2: ${reason}`]);
  });
});
