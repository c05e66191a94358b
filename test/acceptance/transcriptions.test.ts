import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import OpenAI, { toFile } from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { wavFile } from '../../packages/server/src/upstreams/transcription.ts';
import { openAccount, type SharedAccount } from './shared-account.ts';

const AUDIO = join(import.meta.dirname, '../fixtures/audio');
const MODEL = 'openai/whisper-tiny';
const clip = (name: string) => createReadStream(join(AUDIO, name));

/** The official client sends audio and reads every format. */
describe('transcriptions', () => {
  let server: SharedAccount;
  let client: OpenAI;
  beforeAll(async () => {
    server = await openAccount();
    client = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey, maxRetries: 0 });
  });

  it('come as JSON with the seconds that were billed', async () => {
    const answer = await client.audio.transcriptions.create({ model: MODEL, file: clip('meeting.ogg') });
    expect(answer.text).toContain('thank you for coming to the meeting');
    expect(answer.usage).toEqual({ type: 'duration', seconds: 5 });
  });

  it.each(['apples.wav', 'apples.mp3', 'apples.flac', 'apples.opus.ogg', 'apples.m4a', 'apples.opus.webm'])(
    'are made from %s',
    async (name) => {
      const { text } = await client.audio.transcriptions.create({ model: MODEL, language: 'en', file: clip(name) });
      expect(text).toContain('bottle of water');
    },
  );

  it('come as plain text, srt and vtt', async () => {
    const as = (response_format: 'text' | 'srt' | 'vtt') =>
      client.audio.transcriptions.create({ model: MODEL, file: clip('weather.ogg'), response_format });
    expect(await as('text')).toContain('the sun will shine');
    expect(await as('srt')).toMatch(/^1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\n/);
    expect(await as('vtt')).toMatch(/^WEBVTT\n\n00:0/);
  });

  it('have language, segments and words in the verbose format', async () => {
    const answer = await client.audio.transcriptions.create({
      model: MODEL,
      file: clip('weather.ogg'),
      response_format: 'verbose_json',
      timestamp_granularities: ['segment', 'word'],
    });
    expect(answer.language).toBe('english');
    const { segments = [], words = [] } = answer;
    expect(segments[0]).toMatchObject({ id: 0, temperature: 0 });
    expect(segments.map(({ text }) => text).join('')).toContain('Tomorrow');
    expect(words.length).toBeGreaterThan(10);
    const times = words.flatMap(({ start, end }) => [start, end]);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(times.at(-1)).toBeLessThanOrEqual(Number(answer.duration) + 0.1);
  });

  it('stream deltas that add up to the whole text', async () => {
    const stream = await client.audio.transcriptions.create({ model: MODEL, file: clip('weather.ogg'), stream: true });
    let joined = '';
    let whole = '';
    for await (const event of stream) {
      if (event.type === 'transcript.text.delta') joined += event.delta;
      if (event.type === 'transcript.text.done') whole = event.text;
    }
    expect(whole).toContain('the sun will shine');
    expect(joined).toBe(whole);
  });

  it('read a file that was uploaded before', async () => {
    const file = await client.files.create({
      file: clip('meeting.ogg'),
      // Baobab's own purpose; the client's type knows only OpenAI's.
      purpose: 'transcription' as 'batch',
    });
    const answer = await client.post<{ text: string }>('/audio/transcriptions', {
      body: { model: MODEL, file_id: file.id },
    });
    expect(answer.text).toContain('thank you for coming');
    await client.files.delete(file.id);
    const gone = client.post('/audio/transcriptions', { body: { model: MODEL, file_id: file.id } });
    await expect(gone).rejects.toMatchObject({ status: 404, code: 'file_not_found' });
  });

  it('are empty for silence', async () => {
    const seconds = 2;
    const silence = wavFile(new Float32Array(seconds * 16_000));
    const answer = await client.audio.transcriptions.create({
      model: MODEL,
      file: await toFile(silence, 'silence.wav'),
    });
    expect(answer.text).toBe('');
    expect(answer.usage).toEqual({ type: 'duration', seconds });
  });

  it('refuse other files, a wrong model and a form without a file', async () => {
    const text = await toFile(Buffer.from('this is a letter'), 'letter.mp3');
    await expect(client.audio.transcriptions.create({ model: MODEL, file: text })).rejects.toMatchObject({
      status: 400,
      code: 'invalid_parameter',
      param: 'file',
    });
    const wrong = client.audio.transcriptions.create({ model: 'baai/bge-small-en-v1.5', file: clip('meeting.ogg') });
    await expect(wrong).rejects.toMatchObject({ status: 422, code: 'wrong_modality' });
    const nothing = client.post('/audio/transcriptions', { body: { model: MODEL } });
    await expect(nothing).rejects.toMatchObject({ status: 400, code: 'missing_parameter', param: 'file' });
  });

  it('are translations into English on request', async () => {
    const spanish = () => ({ model: MODEL, file: clip('reunion.ogg') });
    const { text } = await client.audio.translations.create(spanish());
    expect(text.toLowerCase()).toContain('thank you');
    // The client's own types confuse the formats of translations.
    const verbose = (await client.audio.translations.create({
      ...spanish(),
      response_format: 'verbose_json',
    })) as OpenAI.Audio.TranslationVerbose;
    expect(verbose).toMatchObject({ task: 'translate', language: 'english', text });
    expect(
      verbose.segments
        ?.map((segment) => segment.text)
        .join('')
        .trim(),
    ).toBe(text);
    expect(await client.audio.translations.create({ ...spanish(), response_format: 'vtt' })).toMatch(/^WEBVTT/);
    const asked = client.post('/audio/translations', { body: { model: MODEL, file_id: 'file_1', language: 'es' } });
    await expect(asked).rejects.toMatchObject({ status: 422, param: 'language' });
  });

  it('are billed by the second in the usage report', async () => {
    const report = await client.get<{ buckets: { model: string; audio_seconds: number; cost_usd: number }[] }>(
      '/usage',
      {
        query: { start: '2020-01-01', bucket: 'month', group_by: 'model' },
      },
    );
    const bucket = report.buckets.find(({ model }) => model === MODEL);
    expect(bucket?.audio_seconds).toBeGreaterThan(40);
    expect(bucket?.cost_usd).toBeCloseTo(((bucket?.audio_seconds ?? 0) / 60) * 0.0006, 9);
  });
});
