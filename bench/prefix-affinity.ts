/**
 * Measures what the choice of an upstream by the start of the prompt does for the prefix caches of two engines: conversations with a
 * system prompt each, several at a time, through one Baobab with two upstreams, and through one whose single upstream is a balancer
 * that passes each request to the engine with the fewest. Both take turns, with new conversations in every round.
 *
 *   node bench/prefix-affinity.ts [--rounds 5] [--conversations 12] [--turns 6] [--at-once 4] [--slots 8]
 *
 * The engines keep the last prompt of each slot, as llama-server does, and are simulated. With LLAMA_SERVER (see bench/llama-server.ts) they
 * are real: `LLAMA_SERVER="venv/bin/python bench/chat/xllamacpp-server.py" node bench/prefix-affinity.ts --rounds 1`.
 */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse, request as sendRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';
import { startServer } from '../test/acceptance/start-server.ts';
import { createReport, median, printConditions } from './measure.ts';
import { startLlamaEngine, startSimulatedEngine } from './prefix-affinity/engines.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    conversations: { type: 'string', default: '12' },
    turns: { type: 'string', default: '6' },
    'at-once': { type: 'string', default: '4' },
    slots: { type: 'string', default: '8' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 2 : 5));
const [conversations, turns, atOnce, slots] = [values.conversations, values.turns, values['at-once'], values.slots].map(
  Number,
) as [number, number, number, number];
const MODEL = 'mistralai/mistral-small-3.2-24b-instruct';
const WORDS = 'river market morning teacher quiet harvest letter bridge window story garden winter road music'.split(
  ' ',
);
/** About 400 tokens. */
const SYSTEM_WORDS = 300;

const words = (seed: number, count: number): string =>
  Array.from({ length: count }, (_, index) => WORDS[(seed * 31 + index * (seed % 7) + index) % WORDS.length]).join(' ');

/** A balancer without affinity: the engine with the fewest requests gets the next one, in turn if they have equally many. */
async function startBalancer(engines: readonly string[]): Promise<AsyncDisposable & { address: string }> {
  const places = engines.map((url) => ({ url: new URL(url), running: 0 }));
  let turn = 0;
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    turn += 1;
    const order = places.map((_, index) => places[(turn + index) % places.length] as (typeof places)[number]);
    const place = order.reduce((best, each) => (each.running < best.running ? each : best));
    place.running += 1;
    response.once('close', () => {
      place.running -= 1;
    });
    const { hostname, port } = place.url;
    const passed = sendRequest({ hostname, port, path: request.url, method: request.method, headers: request.headers });
    passed.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    request.pipe(passed);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

interface Figures {
  promptTokens: number;
  cachedTokens: number;
  seconds: number;
}

interface ChatAnswer {
  choices: { message: { content: string } }[];
  usage: { prompt_tokens: number; prompt_tokens_details?: { cached_tokens?: number } };
}

/** Runs all conversations, some at a time. The others continue meanwhile in no fixed order. */
async function converse(server: { address: string; apiKey: string }, seed: number): Promise<Figures> {
  const figures: Figures = { promptTokens: 0, cachedTokens: 0, seconds: 0 };
  const open = Array.from({ length: conversations }, (_, index) => ({
    left: turns,
    messages: [{ role: 'system', content: `Conversation ${seed}-${index}. ${words(seed + index, SYSTEM_WORDS)}` }],
  }));
  const startedAt = performance.now();
  let next = 0;
  const run = async () => {
    for (;;) {
      next += 5;
      const [conversation] = open.splice(next % Math.max(1, open.length), 1);
      if (conversation === undefined) return;
      conversation.messages.push({ role: 'user', content: `Turn ${conversation.left}: ${words(next, 20)}` });
      const answer = await fetch(`${server.address}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: MODEL, messages: conversation.messages, max_tokens: 8, temperature: 0 }),
      });
      if (!answer.ok) throw new Error(`answered ${answer.status}: ${await answer.text()}`);
      const { choices, usage } = (await answer.json()) as ChatAnswer;
      figures.promptTokens += usage.prompt_tokens;
      figures.cachedTokens += usage.prompt_tokens_details?.cached_tokens ?? 0;
      conversation.messages.push({ role: 'assistant', content: choices[0]?.message.content || 'Yes.' });
      conversation.left -= 1;
      if (conversation.left > 0) open.push(conversation);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, run));
  figures.seconds = (performance.now() - startedAt) / 1000;
  return figures;
}

printConditions('Prefix affinity');
const command = process.env.LLAMA_SERVER;
const startEngine = () => (command === undefined ? startSimulatedEngine(slots) : startLlamaEngine(command, slots));
console.log(command === undefined ? 'engines: simulated' : `engines: ${command}`);
await using first = await startEngine();
await using second = await startEngine();
const engines = [first.address, second.address];
await using balancer = await startBalancer(engines);
const env = (urls: readonly string[]) => ({
  BAOBAB_LOG_LEVEL: 'error',
  BAOBAB_LIMITS_CHAT_RPM: '1000000',
  BAOBAB_LIMITS_CHAT_TPM: '1000000000',
  BAOBAB_UPSTREAMS: JSON.stringify(
    urls.map((url) => ({ model: MODEL, url: `${url}/v1`, max_concurrency: 16 * slots })),
  ),
});
await using chosen = await startServer({ env: env(engines) });
await using balanced = await startServer({ env: env([balancer.address]) });

const results: { withIt: Figures; without: Figures }[] = [];
for (let round = 0; round < rounds; round += 1) {
  const without = await converse(balanced, 1000 * round);
  const withIt = await converse(chosen, 1000 * round + 500);
  results.push({ withIt, without });
  const shown = ({ promptTokens, cachedTokens, seconds }: Figures) =>
    `${cachedTokens} of ${promptTokens} prompt tokens from the cache (${((100 * cachedTokens) / promptTokens).toFixed(0)} %), ${seconds.toFixed(1)} s`;
  console.log(`round ${round + 1}: with affinity ${shown(withIt)}; without ${shown(without)}`);
}
const share = ({ cachedTokens, promptTokens }: Figures) => cachedTokens / promptTokens;
const computed = ({ cachedTokens, promptTokens }: Figures) => promptTokens - cachedTokens;
const report = createReport();
report.add({
  name: 'share of prompt tokens from caches, with affinity',
  value: median(results.map(({ withIt }) => share(withIt))),
});
report.add({ name: '  without', value: median(results.map(({ without }) => share(without))) });
report.add({
  name: 'prompt tokens computed, with affinity / without',
  value: median(results.map(({ withIt, without }) => computed(withIt) / computed(without))),
  atMost: 0.8,
});
report.add({
  name: 'time for all conversations, with / without',
  value: median(results.map(({ withIt, without }) => withIt.seconds / without.seconds)),
});
report.print();
