/**
 * Compares streams of POST /v1/chat/completions with a `seed` and without one, in turns on one server, and checks that a text with a seed is
 * the same alone and beside others.
 *
 *   node bench/seeds.ts [--model file.gguf] [--streams 1,8,32] [--tokens 128] [--rounds 5] [--context 2048] [--gpu] [--quick]
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { askEngines } from '../packages/server/src/control/client.ts';
import { startServer } from '../test/acceptance/start-server.ts';
import { createHttpSide } from './chat/sides.ts';
import { createReport, median, printConditions } from './measure.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    model: { type: 'string', default: join(import.meta.dirname, '../models/chat-mini/2026-11-18/model.gguf') },
    streams: { type: 'string', default: '1,4' },
    tokens: { type: 'string' },
    rounds: { type: 'string' },
    context: { type: 'string', default: '2048' },
    gpu: { type: 'boolean', default: false },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 1 : 5));
const maxTokens = Number(values.tokens ?? (values.quick ? 16 : 64));
const streamCounts = values.streams.split(',').map(Number);
const sequences = Math.max(...streamCounts);
const GOAL = 0.7;
const SLUG = 'bench/stable-chat';

const catalogDir = mkdtempSync(join(tmpdir(), 'baobab-bench-'));
const model = resolve(values.model);
writeFileSync(
  join(catalogDir, 'chat.yaml'),
  JSON.stringify({
    slug: SLUG,
    modality: 'chat',
    created: '2026-01-01',
    context_length: Number(values.context),
    engine: { driver: 'llama', task: 'chat', model: basename(model), stable_outputs: true },
    source: { kind: 'file', path: dirname(model) },
  }),
);
await using server = await startServer({
  env: {
    BAOBAB_LOG_LEVEL: 'warn',
    BAOBAB_CATALOG_DIR: catalogDir,
    BAOBAB_ENGINES_LLAMA_SEQUENCES: String(sequences),
    BAOBAB_ENGINES_LLAMA_GPU: values.gpu ? 'auto' : 'off',
    BAOBAB_LIMITS_CHAT_RPM: '1000000',
    BAOBAB_LIMITS_CHAT_TPM: '100000000',
  },
});
const sideWith = (extra: object) =>
  createHttpSide({ ...server, model: SLUG, connections: sequences, extra: { ignore_eos: true, ...extra } });
const sides = { free: sideWith({}), seeded: sideWith({ seed: 7 }) };
const report = createReport();

let asked = 0;
const question = () => `${1000 + asked++} trees stand by the river. Tell their story.`;
const POEM = [{ role: 'user' as const, content: 'Write a long poem about the baobab tree.' }];
const poem = async () => (await sides.seeded.ask(POEM, { maxTokens: 6 * maxTokens })).text;

printConditions(`Chat with a seed, ${values.model}, ${maxTokens} tokens per stream, ${rounds} rounds`);
const alone = await poem();
console.log(`the model runs on ${JSON.stringify((await askEngines(server.dataDir))?.map(({ device }) => device))}\n`);
for (const streams of streamCounts) {
  const ratios: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const perSecond = { free: 0, seeded: 0 };
    for (const name of round % 2 === 0 ? (['free', 'seeded'] as const) : (['seeded', 'free'] as const)) {
      const prompts = Array.from({ length: streams }, question);
      perSecond[name] = (await sides[name].run({ prompts, maxTokens })).tokensPerSecond;
    }
    console.log(
      `${streams} stream(s): ${perSecond.free.toFixed(0)} tokens/s, ${perSecond.seeded.toFixed(0)} with a seed`,
    );
    ratios.push(perSecond.seeded / perSecond.free);
  }
  report.add({ name: `${streams} stream(s), with a seed / without`, value: median(ratios), atLeast: GOAL });
  const others = Array.from({ length: streams - 1 }, question);
  const half = Math.ceil(others.length / 2);
  const [beside] = await Promise.all([
    poem(),
    sides.free.run({ prompts: others.slice(0, half), maxTokens: 4 * maxTokens }),
    ...(half < others.length ? [sides.seeded.run({ prompts: others.slice(half), maxTokens: 6 * maxTokens })] : []),
  ]);
  report.add({
    name: `${streams} stream(s), the text of a seed differs from that alone`,
    value: beside === alone ? 0 : 1,
    atMost: 0,
  });
}
report.print();
for (const side of Object.values(sides)) side.close();
