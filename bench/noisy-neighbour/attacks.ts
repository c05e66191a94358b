/** Attacks by a tenant with a valid key or a client without one. Each runs until its process ends. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, FormData, fetch, type RequestInit, request } from 'undici';
import { pagesOf, streamOf } from '../../test/fixtures/pdf.ts';
import { BOMBS } from './grammar-bombs.ts';

export const EMBEDDING_MODEL = 'baobab/embed-multilingual';
export const RERANK_MODEL = 'baobab/rerank-mini';
const LONG_TEXT = 'The rains came late this year, and the river stayed low until May. '.repeat(30);
const STREAMS = 60;

export interface Target {
  address: string;
  key: string;
  remoteModel: string;
  localModel: string;
}

export type Attack = (target: Target) => Promise<void>;

const BAD_KEYS_PER_SECOND = 500;
const SLOW_SOCKETS = 500;
const UNREAD_ANSWERS = 8;
const FULL_QUEUE = 400;
const BATCHES = 1_000;

/** Ignores errors: failed requests are part of an attack. */
async function send(target: Target, path: string, init: RequestInit, dispatcher: Agent): Promise<unknown> {
  try {
    const answer = await fetch(`${target.address}${path}`, { ...init, dispatcher });
    return await answer.json();
  } catch {
    return undefined;
  }
}

const post = (target: Target, path: string, body: string, dispatcher: Agent, key = target.key) =>
  send(
    target,
    path,
    { method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body },
    dispatcher,
  );

/** Runs a number of copies at once and repeats each one when it ends. */
async function repeat(workers: number, work: () => Promise<unknown>): Promise<void> {
  const run = async () => {
    for (;;) await work();
  };
  await Promise.all(Array.from({ length: workers }, run));
}

/** undici's `dump` would break off after 128 kB. */
async function read(target: Target, path: string, init: { method?: 'POST'; body?: string }, dispatcher: Agent) {
  const headers = { authorization: `Bearer ${target.key}`, 'content-type': 'application/json' };
  const answer = await request(`${target.address}${path}`, { ...init, headers, dispatcher });
  for await (const _ of answer.body);
}

const monthAgo = () => new Date(Date.now() - 30 * 86_400_000).toISOString();

const textPage = (text: string): string => streamOf(`BT /F1 8 Tf 10 100 Td (${text}) Tj ET`);

const message = (content: string) => [{ role: 'user', content }];

export const ATTACKS: Record<string, Attack> = {
  async 'bad keys'(target) {
    const agent = new Agent({ connections: 32 });
    const everyMs = 20;
    for (;;) {
      for (let count = 0; count < (BAD_KEYS_PER_SECOND * everyMs) / 1_000; count += 1) {
        void post(target, '/v1/chat/completions', '{}', agent, `bad-key-${Math.random()}`);
      }
      await sleep(everyMs);
    }
  },

  async 'slow heads'(target) {
    const { hostname, port } = new URL(target.address);
    const open = async () => {
      const socket = connect(Number(port), hostname);
      const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
      socket.on('error', () => {}).resume();
      socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n');
      const drip = setInterval(() => socket.write('x-slow: 1\r\n'), 1_000);
      await closed;
      clearInterval(drip);
    };
    await repeat(SLOW_SOCKETS, open);
  },

  async 'large bodies'(target) {
    const agent = new Agent({ connections: 2 });
    const members = Array.from({ length: 60_000 }, (_, index) => `"m${index}":${index}`).join(',');
    const filler = 'x'.repeat(8 * 1024 * 1024);
    const body = `{"model":"${target.remoteModel}","messages":${JSON.stringify(message(filler))},"metadata":{${members}}}`;
    await repeat(2, () => post(target, '/v1/chat/completions', body, agent));
  },

  async 'grammar bombs'(target) {
    const agent = new Agent({ connections: 4 });
    let turn = 0;
    await repeat(4, () => {
      turn += 1;
      const body = {
        model: target.localModel,
        messages: message('Hi'),
        max_tokens: 4,
        response_format: { type: 'json_schema', json_schema: { name: 'bomb', schema: BOMBS[turn % BOMBS.length] } },
      };
      return post(target, '/v1/chat/completions', JSON.stringify(body), agent);
    });
  },

  async 'full queue'(target) {
    const agent = new Agent({ connections: FULL_QUEUE });
    const body = JSON.stringify({ model: target.remoteModel, messages: message('Hi') });
    await repeat(FULL_QUEUE, async () => {
      const answer = await post(target, '/v1/chat/completions', body, agent);
      // Immediate retries after a refusal would only measure the load generator.
      if (typeof answer === 'object' && answer !== null && 'error' in answer) await sleep(1_000);
    });
  },

  async 'unread answers'(target) {
    const { hostname, port } = new URL(target.address);
    const body = JSON.stringify({
      model: EMBEDDING_MODEL,
      input: Array.from({ length: 512 }, () => 'a'),
    });
    await repeat(UNREAD_ANSWERS, async () => {
      const socket = connect(Number(port), hostname);
      const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
      socket.on('error', () => {}).pause();
      socket.write(
        `POST /v1/embeddings HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${target.key}\r\n` +
          `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await closed;
    });
  },

  async 'long embeddings'(target) {
    const agent = new Agent({ connections: 6 });
    const body = JSON.stringify({ model: EMBEDDING_MODEL, input: Array.from({ length: 128 }, () => LONG_TEXT) });
    await repeat(6, () => post(target, '/v1/embeddings', body, agent));
  },

  async rerank(target) {
    const agent = new Agent({ connections: 4 });
    const documents = Array.from({ length: 300 }, (_, index) => `${index} ${LONG_TEXT.slice(0, 500)}`);
    const body = JSON.stringify({ model: RERANK_MODEL, query: 'When did the rains come?', documents });
    await repeat(4, () => post(target, '/v1/rerank', body, agent));
  },

  async 'large streams'(target) {
    const agent = new Agent({ connections: STREAMS });
    const body = JSON.stringify({ model: target.remoteModel, messages: message('Hi'), stream: true });
    await repeat(STREAMS, () => read(target, '/v1/chat/completions', { method: 'POST', body }, agent));
  },

  async uploads(target) {
    const agent = new Agent({ connections: 8 });
    const content = new Blob(['x'.repeat(12 * 1024 * 1024)]);
    await repeat(8, () => {
      const form = new FormData();
      form.append('purpose', 'user_data');
      form.append('expires_after[anchor]', 'created_at');
      form.append('expires_after[seconds]', '3600');
      form.append('file', content, 'large.txt');
      return send(
        target,
        '/v1/files',
        { method: 'POST', headers: { authorization: `Bearer ${target.key}` }, body: form },
        agent,
      );
    });
  },

  async downloads(target) {
    const agent = new Agent({ connections: 32 });
    const form = new FormData();
    form.append('purpose', 'user_data');
    form.append('file', new Blob(['x'.repeat(50_000_000)]), 'large.txt');
    const headers = { authorization: `Bearer ${target.key}` };
    const file = (await send(target, '/v1/files', { method: 'POST', headers, body: form }, agent)) as { id: string };
    await repeat(32, () => read(target, `/v1/files/${file.id}/content`, {}, agent));
  },

  async 'token counts'(target) {
    const agent = new Agent({ connections: 8 });
    const body = JSON.stringify({ model: target.localModel, messages: message('count these words '.repeat(10_000)) });
    await repeat(8, () => post(target, '/v1/messages/count_tokens', body, agent));
  },

  async 'usage reports'(target) {
    const agent = new Agent({ connections: 8 });
    const paths = [`/v1/usage?start=${monthAgo()}&bucket=day&group_by=model`, '/v1/requests?limit=200'];
    let turn = 0;
    await repeat(8, () => read(target, paths[turn++ % paths.length] as string, {}, agent));
  },

  async 'lists of models'(target) {
    const agent = new Agent({ connections: 12 });
    await repeat(12, () => read(target, '/v1/models?status=all', {}, agent));
  },

  async exports(target) {
    const agent = new Agent({ connections: 8 });
    const path = `/v1/usage?start=${monthAgo()}&bucket=hour&group_by=model,key&format=csv`;
    await repeat(8, () => read(target, path, {}, agent));
  },

  async 'PDF files'(target) {
    const agent = new Agent({ connections: 4 });
    const page = textPage('All about the river and the rains. '.repeat(20));
    let turn = 0;
    await repeat(4, () => {
      // Each one differs, so none comes from the cache.
      const pages = Array.from({ length: 60 }, (_, index) =>
        index === 0 ? textPage(`${turn++} ${Math.random()}`) : page,
      );
      const data = `data:application/pdf;base64,${pagesOf(pages).toString('base64')}`;
      const content = [
        { type: 'text', text: 'Summarize' },
        { type: 'file', file: { filename: 'a.pdf', file_data: data } },
      ];
      const body = JSON.stringify({ model: target.remoteModel, messages: [{ role: 'user', content }] });
      return post(target, '/v1/chat/completions', body, agent);
    });
  },

  async '1000 batches'(target) {
    const agent = new Agent({ connections: 4 });
    const line = {
      custom_id: '1',
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model: target.remoteModel, messages: message('Hi') },
    };
    const form = new FormData();
    form.append('purpose', 'batch');
    form.append('file', new Blob([`${JSON.stringify(line)}\n`]), 'lines.jsonl');
    const headers = { authorization: `Bearer ${target.key}` };
    const file = (await send(target, '/v1/files', { method: 'POST', headers, body: form }, agent)) as
      | { id?: string }
      | undefined;
    const batch = { input_file_id: file?.id, endpoint: '/v1/chat/completions', completion_window: '24h' };
    let created = 0;
    await repeat(4, async () => {
      created += 1;
      if (created > BATCHES) await sleep(60_000);
      else await post(target, '/v1/batches', JSON.stringify(batch), agent);
    });
  },
};
