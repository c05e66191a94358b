import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import OpenAI, { toFile } from 'openai';
import { type RunningServer, startServer } from '../test/acceptance/start-server.ts';

/**
 * Kills the server (kill -9) repeatedly during uploads, a batch and transcriptions, restarts it on the same
 * data, and at the end compares what clients received with what is stored: nothing lost, doubled or partial.
 */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '4' },
    lines: { type: 'string', default: '3000' },
    'embedding-model': { type: 'string', default: 'sentence-transformers/all-minilm-l6-v2' },
    'audio-model': { type: 'string', default: 'openai/whisper-tiny' },
  },
});
const rounds = Number(values.rounds);
const lineCount = Number(values.lines);
const CLIP = join(import.meta.dirname, '..', 'test', 'fixtures', 'audio', 'apples.flac');

const clip = await readFile(CLIP);
const dataDir = await mkdtemp(join(tmpdir(), 'baobab-crash-'));
const problems: string[] = [];
const check = (holds: boolean, what: string) => {
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${what}`);
  if (!holds) problems.push(what);
};

async function start(): Promise<{ server: RunningServer; client: OpenAI }> {
  const server = await startServer({
    dataDir,
    env: {
      BAOBAB_LOG_LEVEL: 'warn',
      BAOBAB_LIMITS_EMBEDDING_RPM: '10000000',
      BAOBAB_LIMITS_EMBEDDING_TPM: '1000000000',
    },
  });
  const client = new OpenAI({ apiKey: server.apiKey, baseURL: `${server.address}/v1`, maxRetries: 0 });
  return { server, client };
}
let { server, client } = await start();

/** Repeats the work until the server dies. */
async function untilKilled(work: () => Promise<void>): Promise<void> {
  try {
    while (true) await work();
  } catch (error) {
    if (!(error instanceof OpenAI.APIConnectionError) && !(error instanceof TypeError)) throw error;
  }
}

/** Digests of acknowledged uploads by id. */
const uploaded = new Map<string, string>();
async function upload(): Promise<void> {
  const bytes = randomBytes(50_000 + Math.floor(Math.random() * 2_000_000));
  const { id } = await client.files.create({ file: await toFile(bytes, 'upload.bin'), purpose: 'batch' });
  uploaded.set(id, createHash('sha256').update(bytes).digest('hex'));
}

const audio = await client.files.create({
  file: await toFile(clip, 'clip.flac'),
  purpose: 'transcription' as 'batch',
});
const transcripts = new Set<string>();
async function transcribe(): Promise<void> {
  const form = new FormData();
  form.set('model', values['audio-model']);
  form.set('file_id', audio.id);
  const answer = await fetch(`${server.address}/v1/audio/transcriptions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}` },
    body: form,
  });
  if (!answer.ok) throw new Error(`transcription answered ${answer.status}: ${await answer.text()}`);
  transcripts.add(((await answer.json()) as { text: string }).text);
}

try {
  const lines = Array.from({ length: lineCount }, (_, index) =>
    JSON.stringify({
      custom_id: `line-${index}`,
      method: 'POST',
      url: '/v1/embeddings',
      body: { model: values['embedding-model'], input: `Line number ${index} of a batch that is killed.` },
    }),
  );
  const input = await client.files.create({
    file: await toFile(Buffer.from(lines.join('\n')), 'batch.jsonl'),
    purpose: 'batch',
  });
  const batch = await client.batches.create({
    input_file_id: input.id,
    endpoint: '/v1/embeddings',
    completion_window: '24h',
  });

  for (let round = 1; round <= rounds; round += 1) {
    const before = uploaded.size;
    const work = Promise.all([untilKilled(upload), untilKilled(upload), untilKilled(transcribe)]);
    while (uploaded.size < before + 3 || (round > 1 && transcripts.size === 0)) await sleep(20);
    await sleep(Math.random() * 1_000);
    const { request_counts: counts, status } = await client.batches.retrieve(batch.id);
    console.log(
      `round ${round}: killed with ${uploaded.size} uploads, batch ${status} ${counts?.completed} of ${counts?.total}`,
    );
    await server.kill();
    await work;
    ({ server, client } = await start());
  }

  let found = await client.batches.retrieve(batch.id);
  while (['validating', 'in_progress', 'finalizing'].includes(found.status)) {
    await sleep(200);
    found = await client.batches.retrieve(batch.id);
  }
  check(found.status === 'completed', `the batch is completed (${found.status})`);
  check(
    found.request_counts?.completed === lineCount,
    `${lineCount} lines are counted (${found.request_counts?.completed})`,
  );
  const output = (await (await client.files.content(found.output_file_id ?? '')).text()).trimEnd().split('\n');
  const ids = output.map((line) => (JSON.parse(line) as { custom_id: string }).custom_id);
  check(
    ids.length === lineCount && ids.every((id, index) => id === `line-${index}`),
    'each custom_id is there once, in order',
  );

  const listed: string[] = [];
  for await (const file of client.files.list()) listed.push(file.id);
  const lost = [...uploaded.keys()].filter((id) => !listed.includes(id));
  check(lost.length === 0, `none of ${uploaded.size} acknowledged uploads is lost (${lost.length})`);
  let damaged = 0;
  for (const [id, digest] of uploaded) {
    const bytes = Buffer.from(await (await client.files.content(id)).arrayBuffer());
    if (createHash('sha256').update(bytes).digest('hex') !== digest) damaged += 1;
  }
  check(damaged === 0, `all of them have their bytes (${damaged} damaged)`);

  await client.files.delete(audio.id);
  const count = listed.length - 1;
  const blobs = async () => {
    const entries = await readdir(join(dataDir, 'blobs'), { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile() && /\/(files|batches|\.temporary)/.test(entry.parentPath)).length;
  };
  for (let tries = 0; tries < 50 && (await blobs()) !== count; tries += 1) await sleep(100);
  check((await blobs()) === count, `no halves, orphans or leftovers: ${await blobs()} blobs for ${count} files`);
  check(transcripts.size === 1, `every transcript is the same (${transcripts.size})`);

  const database = new DatabaseSync(join(dataDir, 'baobab.sqlite'), { readOnly: true });
  const billed = database
    .prepare('select count(*) as rows, count(distinct billing_id) as ids from ledger where billing_id like ?')
    .get(`${batch.id}:%`) as { rows: number; ids: number };
  const attachments = database.prepare('select count(*) as n from file_attachments').get() as { n: number };
  database.close();
  check(billed.rows === lineCount && billed.ids === lineCount, `each line is billed once (${billed.rows} rows)`);
  check(attachments.n === 0, 'no file is attached to a job that is gone');
} finally {
  await server.stop();
  await rm(dataDir, { recursive: true, force: true });
}
console.log(problems.length === 0 ? 'nothing lost, nothing doubled' : `${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;
