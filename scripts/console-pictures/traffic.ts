import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Api } from './api.ts';
import { json } from './api.ts';
import type { TeamKey } from './teams.ts';

export const CHAT = 'huggingfacetb/smollm2-135m-instruct';
export const EMBED = 'baobab/embed-multilingual';
export const RERANK = 'baobab/rerank-multilingual';
export const REMOTE = 'acme/embed-english';
export const SUPPORT = 'acme/support-chat';
export const TINY = 'openai/whisper-tiny';
export const BASE = 'openai/whisper-base';

const AUDIO = join(import.meta.dirname, '../../test/fixtures/audio');

const QUESTIONS = [
  'My parcel has not arrived. What should I do?',
  'Write a short, polite reply to a customer who wants a refund after six weeks.',
  'Explain the difference between a loan and a reservation in two sentences.',
  'Give three names for a reading group about trees.',
  'Why do baobabs store water?',
];
const TEXTS = [
  'The baobab can live for more than a thousand years.',
  'Le baobab peut vivre plus de mille ans.',
  'يمكن لشجرة الباوباب أن تعيش أكثر من ألف عام.',
  'Opening hours of the reading room on public holidays',
  'How do I return a book that was damaged by water?',
];

async function transcribe(api: Api, key: string, model: string, name: string): Promise<void> {
  const form = new FormData();
  form.set('model', model);
  form.set('response_format', 'json');
  form.set('file', new Blob([await readFile(join(AUDIO, name))]), name);
  await (await api('audio/transcriptions', key, form)).arrayBuffer();
}

/** Every kind of request, with real models, through the keys of the teams. Some are refused on purpose. */
export async function makeTraffic(api: Api, keys: readonly TeamKey[], { rounds }: { rounds: number }): Promise<void> {
  const secret = (name: string) => keys.find((key) => key.name === name)?.secret ?? '';
  const send = async (path: string, key: string, body: object) =>
    void (await (await api(path, secret(key), body)).arrayBuffer());
  const chat = (key: string, content: string, more: object = {}) =>
    send('chat/completions', key, { model: CHAT, messages: [{ role: 'user', content }], max_tokens: 60, ...more });
  const stream = (key: string, content: string, more: object = {}) =>
    chat(key, content, { stream: true, stream_options: { include_usage: true }, ...more });
  for (let round = 0; round < rounds; round += 1) {
    const question = QUESTIONS[round % QUESTIONS.length] ?? '';
    await stream('helpdesk-web', question, { model: SUPPORT });
    await stream('mara', question, { model: SUPPORT });
    await chat('helpdesk-web', question, { max_tokens: 24 });
    await stream('ana-notebook', question);
    await stream('editors', `Write a headline. ${question}`);
    await send('embeddings', 'catalogue-index', { model: EMBED, input: [...TEXTS, ...QUESTIONS] });
    await send('embeddings', 'helpdesk-nightly', { model: EMBED, input: TEXTS });
    await send('embeddings', 'مفتاح التجارب', { model: EMBED, input: TEXTS[2] ?? '' });
    await send('embeddings', 'ana-notebook', { model: REMOTE, input: TEXTS.slice(0, 2) });
    await send('embeddings', 'catalogue-index', { model: CHAT, input: 'Not an embedding model' });
    await send('rerank', 'reading-room', { model: RERANK, query: TEXTS[3] ?? '', documents: [...TEXTS, ...QUESTIONS] });
    await send('rerank', 'helpdesk-nightly', { model: RERANK, query: question, documents: TEXTS });
    await transcribe(api, secret('transcribe-shows'), TINY, 'weather.ogg');
    await transcribe(api, secret('transcribe-shows'), BASE, 'meeting.ogg');
  }
  // Too many for a limit of four a minute.
  for (let more = 0; more < 8; more += 1) {
    await send('rerank', 'reading-room', { model: RERANK, query: 'reading room', documents: TEXTS });
  }
  await send('embeddings', 'ana-notebook', { model: 'acme/unknown', input: 'x' });
  await send('embeddings', 'ana-notebook', { model: EMBED, input: 'too long '.repeat(9_000) });
  await cancelledStream(api, secret('helpdesk-web'));
}

async function cancelledStream(api: Api, key: string): Promise<void> {
  const messages = [{ role: 'user', content: 'Write a long story about a tree.' }];
  const response = await api('chat/completions', key, { model: CHAT, messages, max_tokens: 900, stream: true });
  const reader = response.body?.getReader();
  await reader?.read();
  await reader?.cancel();
}

async function uploadLines(api: Api, key: string, name: string, lines: readonly object[]): Promise<string> {
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([lines.map((line) => `${JSON.stringify(line)}\n`).join('')]), name);
  return (await json<{ id: string }>(api('files', key, form))).id;
}

const line = (id: string, url: string, body: object) => ({ custom_id: id, method: 'POST', url, body });

const start = (api: Api, key: string, id: string, endpoint: string, job: string) =>
  json<{ id: string }>(
    api('batches', key, { input_file_id: id, endpoint, completion_window: '24h', metadata: { job } }),
  );

/** A batch with a few failures. Returns when it has ended. */
export async function runBatch(api: Api, key: string): Promise<void> {
  const articles = Array.from({ length: 120 }, (_, index) =>
    line(`article-${index + 1}`, '/v1/embeddings', {
      model: index % 40 === 17 ? 'acme/unknown' : EMBED,
      input: `${TEXTS[index % TEXTS.length]} ${index}`,
    }),
  );
  const file = await uploadLines(api, key, 'articles-2026-11.jsonl', articles);
  const { id } = await start(api, key, file, '/v1/embeddings', 'nightly-index');
  for (let ended = false; !ended; ) {
    await setTimeout(500);
    ended = (await json<{ completed_at: number | null }>(api(`batches/${id}`, key))).completed_at !== null;
  }
}

/** A batch that runs while pictures are taken. */
export async function startBatch(api: Api, key: string): Promise<void> {
  const summaries = Array.from({ length: 400 }, (_, index) =>
    line(`ticket-${index + 1}`, '/v1/chat/completions', {
      model: CHAT,
      max_tokens: 12,
      messages: [{ role: 'user', content: `Summarise ticket ${index + 1}: ${QUESTIONS[index % QUESTIONS.length]}` }],
    }),
  );
  const file = await uploadLines(api, key, 'tickets-week-46.jsonl', summaries);
  await start(api, key, file, '/v1/chat/completions', 'summaries');
}
