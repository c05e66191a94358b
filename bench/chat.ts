/**
 * Streams of POST /v1/chat/completions against node-llama-cpp driven directly: the same weights, prompts and threads, in turns. Then
 * a second turn that shares a long prefix with the first one. `bench/remote.ts` is the part about upstreams.
 *
 *   node bench/chat.ts [--quick] [--rounds 5] [--tokens 48] [--threads 1]
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Pool } from 'undici';
import { startServer } from '../test/acceptance/start-server.ts';
import { weights } from '../test/models/weights.ts';
import type { RawLlamaOrder, RawLlamaSetup, StreamFigures } from './chat/raw-llama.ts';
import { childrenOf, createReport, median, printConditions, processorSeconds } from './measure.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    tokens: { type: 'string' },
    threads: { type: 'string', default: '1' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 1 : 5));
const maxTokens = Number(values.tokens ?? (values.quick ? 12 : 48));
const MODEL = 'tinyllama/tinyllama-1.1b-chat';
const STREAMS = [1, 4, 8] as const;
const SEQUENCES = 8;
const report = createReport();

const spec = await weights(MODEL);
if (spec.engine.driver !== 'llama') throw new Error(`${MODEL} does not run on llama.cpp`);
const raw = fork(join(import.meta.dirname, 'chat/raw-llama.ts'));
raw.send({
  model: join(spec.directory, spec.engine.model),
  contextSize: spec.contextLength,
  sequences: SEQUENCES,
  threads: Number(values.threads),
} satisfies RawLlamaSetup);
await once(raw, 'message');
await using server = await startServer({
  env: {
    BAOBAB_LOG_LEVEL: 'warn',
    BAOBAB_ENGINES_LLAMA_THREADS: values.threads,
    BAOBAB_ENGINES_LLAMA_SEQUENCES: String(SEQUENCES),
    BAOBAB_LIMITS_CHAT_RPM: '1000000',
    BAOBAB_LIMITS_CHAT_TPM: '100000000',
  },
});
const pool = new Pool(server.address, { connections: SEQUENCES, headersTimeout: 0, bodyTimeout: 0 });

let asked = 0;
/** Different from the first word on, so that no prefix is there to be reused. */
const question = () => `${(asked++ * 7919) % 9973} trees stand by the river. Tell their story.`;

async function stream(
  content: string,
  tokens: number,
): Promise<{ firstTokenMs: number; tokens: number; cached: number }> {
  const began = performance.now();
  const answer = await pool.request({
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      messages: [{ role: 'user', content }],
      temperature: 0.8,
      top_p: 0.95,
      max_tokens: tokens,
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  let firstTokenMs = 0;
  let text = '';
  for await (const chunk of answer.body) {
    text += chunk;
    if (firstTokenMs === 0 && /"content":"[^"]/.test(text)) firstTokenMs = performance.now() - began;
  }
  const usage = /"usage":(\{"prompt_tokens".*\})\}/.exec(text)?.[1];
  if (answer.statusCode !== 200 || usage === undefined)
    throw new Error(`the server answered ${answer.statusCode} ${text}`);
  const { completion_tokens: completion, cache_read_tokens: cached } = JSON.parse(usage);
  return { firstTokenMs, tokens: completion, cached };
}

async function throughService(prompts: readonly string[]): Promise<StreamFigures> {
  const began = performance.now();
  const streams = await Promise.all(prompts.map((prompt) => stream(prompt, maxTokens)));
  const tokens = streams.reduce((sum, each) => sum + each.tokens, 0);
  return {
    firstTokenMs: streams.map((each) => each.firstTokenMs),
    tokens,
    tokensPerSecond: tokens / ((performance.now() - began) / 1000),
  };
}

async function throughLibrary(prompts: readonly string[]): Promise<StreamFigures> {
  const inTemplate = prompts.map((prompt) => `<|user|>\n${prompt}</s>\n<|assistant|>\n`);
  raw.send({ prompts: inTemplate, maxTokens } satisfies RawLlamaOrder);
  const [figures] = (await once(raw, 'message')) as [StreamFigures];
  return figures;
}

printConditions(`Chat, ${MODEL}, ${values.threads} thread, ${maxTokens} tokens a stream, ${rounds} rounds`);
await throughService([question()]);
await throughLibrary([question()]);
const engines = childrenOf(server.process.pid ?? 0);
for (const streams of STREAMS) {
  const turns: { library: StreamFigures; service: StreamFigures; processorRatio: number }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const prompts = Array.from({ length: streams }, question);
    const own = [server.process.pid ?? 0, ...engines];
    const before = [processorSeconds([raw.pid ?? 0]), processorSeconds(own)] as const;
    const library = await throughLibrary(prompts);
    const service = await throughService(prompts);
    const libraryCost = (processorSeconds([raw.pid ?? 0]) - before[0]) / library.tokens;
    const serviceCost = (processorSeconds(own) - before[1]) / service.tokens;
    turns.push({ library, service, processorRatio: libraryCost / serviceCost });
  }
  const rate = (side: 'library' | 'service') => median(turns.map((turn) => turn[side].tokensPerSecond));
  const first = (side: 'library' | 'service') => median(turns.map((turn) => median(turn[side].firstTokenMs)));
  console.log(
    `${streams} stream(s): library ${rate('library').toFixed(1)} tokens/s, first token ${first('library').toFixed(0)} ms; ` +
      `service ${rate('service').toFixed(1)} tokens/s, first token ${first('service').toFixed(0)} ms`,
  );
  const ratio = median(turns.map(({ library, service }) => service.tokensPerSecond / library.tokensPerSecond));
  report.add({ name: `${streams} stream(s), tokens/s / library`, value: ratio, atLeast: 0.95 });
  report.add({ name: '  the same by processor time', value: median(turns.map((turn) => turn.processorRatio)) });
  const later = median(
    turns.map(({ library, service }) => median(service.firstTokenMs) - median(library.firstTokenMs)),
  );
  report.add({ name: '  first token later by', value: later, atMost: 5, unit: ' ms', digits: 1 });
}

const prefix = 'The baobab stores water in its trunk and lives for a thousand years. '.repeat(values.quick ? 12 : 60);
const cold = await stream(`${prefix}Summarise.`, 1);
const warm = await stream(`${prefix}Translate.`, 1);
console.log(
  `shared prefix: first turn ${cold.firstTokenMs.toFixed(0)} ms to its first token, second turn ${warm.firstTokenMs.toFixed(0)} ms ` +
    `with ${warm.cached} tokens from the cache`,
);
report.add({
  name: 'second turn with a shared prefix, times faster',
  value: cold.firstTokenMs / warm.firstTokenMs,
  atLeast: 5,
});
report.print();
await pool.close();
raw.kill();
