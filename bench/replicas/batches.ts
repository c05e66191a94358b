import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';
import { s3Missing, startS3 } from '../../test/fixtures/s3-server.ts';
import { median, type Report } from '../measure.ts';
import { startProgram } from '../program.ts';
import { chatBody, KEY, MODEL } from './chat.ts';
import { type BaobabOptions, type Side, startBaobab } from './sides.ts';
import { startStores } from './stores.ts';

export interface BatchesOptions {
  common: Omit<BaobabOptions, 'name'>;
  lines: number;
  rounds: number;
  /** The command of an upstream that answers after `answerMs`. */
  upstreamCommand: string[];
  answerMs: number;
  report: Report;
}

/** Lines/s from the creation of a batch until its output can be read. */
async function runBatch(side: Side, lines: number): Promise<number> {
  const client = new OpenAI({ apiKey: KEY, baseURL: new URL('/v1', side.url).href });
  const body = JSON.parse(chatBody(MODEL, false)) as object;
  const input = Array.from({ length: lines }, (_, line) =>
    JSON.stringify({ custom_id: `line-${line}`, method: 'POST', url: '/v1/chat/completions', body }),
  ).join('\n');
  const file = await client.files.create({ file: await toFile(Buffer.from(input), 'input.jsonl'), purpose: 'batch' });
  const startedAt = performance.now();
  const { id } = await client.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
  for (;;) {
    const { status, request_counts: counts } = await client.batches.retrieve(id);
    if (status === 'completed' && counts?.completed === lines) break;
    if (status !== 'validating' && status !== 'in_progress' && status !== 'finalizing') {
      throw new Error(`the batch is ${status} with ${counts?.completed} of ${lines} lines`);
    }
    await sleep(100);
  }
  return lines / ((performance.now() - startedAt) / 1000);
}

/** One batch on one server, and on two that share it. The engine's latency is the limit, not the cores. */
export async function measureBatches({ common, lines, rounds, report, ...options }: BatchesOptions): Promise<void> {
  if (s3Missing !== undefined) {
    console.log(`Not measured: ${s3Missing}`);
    return;
  }
  await using upstream = await startProgram(options.upstreamCommand, { ANSWER_MS: `${options.answerMs}` });
  await using stores = await startStores();
  const s3 = await startS3();
  try {
    const shared = {
      ...common,
      ...(await stores.next()),
      upstream: upstream.address,
      env: { ...s3.env, BAOBAB_BLOBS: `s3://${s3.bucket}/bench`, BAOBAB_BLOBS_ENDPOINT: s3.endpoint },
    };
    await using first = await startBaobab({ ...shared, name: 'first' });
    await runBatch(first, Math.min(lines, 1000));
    const [ones, twos]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round += 1) {
      ones.push(await runBatch(first, lines));
      await using _second = await startBaobab({ ...shared, name: `second-${round}` });
      twos.push(await runBatch(first, lines));
    }
    const shown = (numbers: number[]) => numbers.map((each) => each.toFixed(0)).join(' ');
    console.log(`\nlines/s of a batch of ${lines}, the engine answers after ${options.answerMs} ms`);
    console.log(`  one server  ${median(ones).toFixed(0)} (${shown(ones)})`);
    console.log(`  two servers ${median(twos).toFixed(0)} (${shown(twos)})`);
    const ratio = median(twos.map((lineRate, round) => lineRate / (ones[round] ?? Number.NaN)));
    report.add({ name: 'batch lines/s of two servers / one', value: ratio });
  } finally {
    await s3.stop();
  }
}
