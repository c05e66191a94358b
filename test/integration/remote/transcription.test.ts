import { afterEach, describe, expect, it } from 'vitest';
import type { TranscriptionRequest } from '../../../packages/core/src/engine/engine.ts';
import { answerJson, type FakeKind } from '../../fixtures/fake-upstream.ts';
import { type RemoteBench, remoteBench } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
afterEach(() => bench.close());

async function transcribe(answer: unknown, request: Partial<TranscriptionRequest> = {}, kind: FakeKind = 'openai') {
  bench = await remoteBench({ upstreams: [{ kind }], model: { task: 'transcription' } });
  bench.upstreams[0]?.script.push(answerJson(200, answer));
  const { transcription } = bench.engine();
  if (transcription === undefined) throw new Error('not a transcription model');
  return transcription.transcribe({ samples: new Float32Array(32_000), ...request }, bench.context());
}

const segment = (start: number, end: number, text: string) => ({
  id: 0,
  seek: 0,
  start,
  end,
  text,
  tokens: [50364, 1],
  temperature: 0.2,
  avg_logprob: -0.3,
  compression_ratio: 1.1,
  no_speech_prob: 0.01,
});

describe('a transcription', () => {
  it('is sent as a form with a wav file', async () => {
    await transcribe(
      { text: 'x', words: [{ word: 'x', start: 0, end: 1 }] },
      { language: 'sw', prompt: 'Habari', temperature: 0.4, wordTimestamps: true },
    );
    const request = bench.upstreams[0]?.requests[0];
    expect(request?.path).toBe('/v1/audio/transcriptions');
    const form = await new Response(request?.body as Buffer, {
      headers: { 'content-type': String(request?.headers['content-type']) },
    }).formData();
    expect(Object.fromEntries([...form].filter(([, value]) => typeof value === 'string'))).toMatchObject({
      model: 'upstream-model',
      response_format: 'verbose_json',
      language: 'sw',
      prompt: 'Habari',
      temperature: '0.4',
    });
    expect(form.getAll('timestamp_granularities[]')).toEqual(['segment', 'word']);
    const file = form.get('file');
    expect(file instanceof File && file.size).toBe(44 + 64_000);
  });

  it('of no samples only has its options checked', async () => {
    const silent = { samples: new Float32Array(0), language: 'sw' };
    expect(await transcribe({ text: 'x' }, silent)).toMatchObject({ language: 'sw', segments: [] });
    expect(bench.upstreams[0]?.requests).toEqual([]);
    await bench.close();
    await expect(transcribe({ text: 'x' }, { ...silent, task: 'translate' }, 'llama-server')).rejects.toMatchObject({
      code: 'unsupported_parameter',
    });
  });

  it('is a translation on request, where the server has a route for it', async () => {
    await transcribe({ text: 'Hello.' }, { task: 'translate', language: 'sw' });
    const [request] = bench.upstreams[0]?.requests ?? [];
    expect(request?.path).toBe('/v1/audio/translations');
    const form = await new Response(request?.body as Buffer, {
      headers: { 'content-type': String(request?.headers['content-type']) },
    }).formData();
    expect([...form.keys()].sort()).toEqual(['file', 'model', 'response_format']);
    await bench.close();
    await expect(transcribe({ text: '' }, { task: 'translate' }, 'llama-server')).rejects.toMatchObject({
      status: 422,
      code: 'unsupported_parameter',
      param: 'model',
    });
  });

  it('returns segments, words in their segments, and the language code', async () => {
    const result = await transcribe(
      {
        task: 'transcribe',
        language: 'english',
        duration: 2,
        text: ' Hello there.',
        segments: [segment(0, 1, ' Hello'), segment(1, 2, ' there.')],
        words: [
          { word: 'Hello', start: 0.1, end: 0.9 },
          { word: 'there', start: 1.1, end: 1.9 },
        ],
      },
      { wordTimestamps: true },
    );
    expect(result).toMatchObject({ language: 'en', servedRegion: 'local' });
    expect(result.segments[1]).toEqual({
      startSeconds: 1,
      endSeconds: 2,
      text: ' there.',
      tokens: [50364, 1],
      temperature: 0.2,
      averageLogprob: -0.3,
      compressionRatio: 1.1,
      noSpeechProbability: 0.01,
      words: [{ word: 'there', startSeconds: 1.1, endSeconds: 1.9 }],
    });
  });

  it('turns an answer that is only text into one segment', async () => {
    const result = await transcribe({ text: 'Hello' }, { language: 'en' });
    expect(result.segments).toMatchObject([{ startSeconds: 0, endSeconds: 2, text: 'Hello' }]);
  });

  it('translates on its own route', async () => {
    await transcribe({ text: 'Hello' }, { task: 'translate', language: 'sw' });
    expect(bench.upstreams[0]?.requests[0]?.path).toBe('/v1/audio/translations');
  });

  it('fails on an answer of another kind', async () => {
    await expect(transcribe([1])).rejects.toMatchObject({ code: 'model_unavailable' });
  });

  it.each([
    ['vllm', 'wordTimestamps', true],
    ['llama-server', 'wordTimestamps', true],
    ['ollama', 'wordTimestamps', true],
    ['ollama', 'temperature', 0.4],
  ] as const)('is refused by %s with %s, which it would ignore', async (kind, field, value) => {
    await expect(transcribe({ text: 'x' }, { [field]: value }, kind)).rejects.toMatchObject({
      code: 'unsupported_parameter',
      field: [field],
    });
    expect(bench.upstreams[0]?.requests).toEqual([]);
  });

  it('keeps a temperature of 0 and no words everywhere', async () => {
    const result = await transcribe({ text: 'Hello' }, { temperature: 0, wordTimestamps: false }, 'ollama');
    expect(result.segments).toMatchObject([{ text: 'Hello' }]);
  });

  it('is refused when the times of words were asked for and the answer has none', async () => {
    const answer = transcribe({ text: 'Hello', segments: [segment(0, 1, ' Hello')] }, { wordTimestamps: true });
    await expect(answer).rejects.toMatchObject({ code: 'unsupported_parameter', field: ['wordTimestamps'] });
  });

  it('asks llama-server for the only format that it has', async () => {
    const result = await transcribe({ text: 'Hello' }, { language: 'sw' }, 'llama-server');
    const request = bench.upstreams[0]?.requests[0];
    const form = String(request?.body);
    expect(form).toContain('name="response_format"\r\n\r\njson\r\n');
    expect(form).not.toContain('timestamp_granularities');
    expect(result).toMatchObject({ language: 'sw', segments: [{ startSeconds: 0, endSeconds: 2, text: 'Hello' }] });
  });
});
