import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { CHAT, EMBEDDING, startHttpBed } from './http/bed.ts';

const VISION = 'google/gemma-3-4b-it';
const CLIP = 'jinaai/jina-clip-v2';

const PIXELS = { type: 'image_url', image_url: { url: dataUrl(png()), detail: 'low' } };

/** A PNG of 640 × 480 pixels as far as its head. */
function png(bytes = 64): Buffer {
  const image = Buffer.alloc(bytes, 7);
  image.write('89504e470d0a1a0a0000000d49484452', 'hex');
  image.writeUInt32BE(640, 16);
  image.writeUInt32BE(480, 20);
  return image;
}
function dataUrl(image: Buffer): string {
  return `data:image/png;base64,${image.toString('base64')}`;
}

const seeing = await startFakeUpstream('vllm');
const blind = await startFakeUpstream('vllm');
const clip = await startFakeUpstream('openai', { dimensions: 1024, contextLength: 8192 });
const clipAtVllm = await startFakeUpstream('vllm', { dimensions: 1024, contextLength: 8192 });
const tei = await startFakeUpstream('tei', { dimensions: 1024, contextLength: 8192 });
const bed = await startHttpBed({
  images: { max_per_request: 3, max_bytes: 8_000_000 },
  upstreams: [
    { model: VISION, url: seeing.url, kind: 'vllm' },
    { model: CHAT, url: blind.url, kind: 'vllm' },
    { model: CLIP, url: clip.url, kind: 'openai' },
    { model: CLIP, url: clipAtVllm.url, kind: 'vllm', region: 'nairobi' },
    { model: CLIP, url: tei.url, kind: 'tei', region: 'lagos' },
    { model: EMBEDDING, url: tei.url, kind: 'tei' },
  ],
});
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await Promise.all([seeing, blind, clip, clipAtVllm, tei].map((upstream) => upstream.close()));
});
afterEach(() => {
  for (const upstream of [seeing, blind, clip, clipAtVllm, tei]) upstream.requests.length = 0;
});

const chat = (model: string, content: unknown, more: object = {}) =>
  bed.post('/v1/chat/completions', { model, messages: [{ role: 'user', content }], ...more });
const text = (given: string) => ({ type: 'text', text: given });

async function upload(image: Buffer, purpose = 'vision'): Promise<string> {
  const form = new FormData();
  form.set('purpose', purpose);
  form.set('file', new Blob([Uint8Array.from(image)]), 'cat.png');
  const answer = await bed.fetch('/v1/files', { method: 'POST', body: form });
  return ((await answer.json()) as { id: string }).id;
}

async function refusal(answer: Response): Promise<unknown> {
  const { error } = (await answer.json()) as { error: { code: string; param: string } };
  return [answer.status, error.code, error.param];
}

describe('images in a chat', () => {
  it('reach an upstream in their places between the texts', async () => {
    const other = { type: 'image_url', image_url: { url: dataUrl(png(80)) } };
    const content = [PIXELS, text('First, '), text('then'), other, text('?')];
    expect((await chat(VISION, content)).status).toBe(200);
    expect(seeing.requests[0]?.body).toMatchObject({
      messages: [{ role: 'user', content: [PIXELS, text('First, then'), other, text('?')] }],
    });
  });

  it('may be larger than what is parsed at once', async () => {
    const url = dataUrl(png(3_000_000));
    const answer = await chat(VISION, [text('What is it?'), { type: 'image_url', image_url: { url } }]);
    expect(answer.status).toBe(200);
    expect(JSON.stringify(seeing.requests[0]?.body)).toContain(url);
  });

  it('come from uploaded files', async () => {
    const id = await upload(png(100));
    expect((await chat(VISION, [text('What is it?'), { type: 'file', file: { file_id: id } }])).status).toBe(200);
    expect(seeing.requests[0]?.body).toMatchObject({
      messages: [{ content: [text('What is it?'), { type: 'image_url', image_url: { url: dataUrl(png(100)) } }] }],
    });
  });

  it('are refused where the model takes text only', async () => {
    const field = 'messages[0].content[1]';
    expect(await refusal(await chat(CHAT, [text('See?'), PIXELS]))).toEqual([422, 'unsupported_parameter', field]);
    expect(blind.requests).toHaveLength(0);
  });

  it.each([
    [
      'from the network',
      { type: 'image_url', image_url: { url: 'http://169.254.169.254/' } },
      422,
      'unsupported_parameter',
    ],
    [
      'of another type',
      { type: 'image_url', image_url: { url: dataUrl(Buffer.alloc(64)) } },
      422,
      'unsupported_parameter',
    ],
    ['too large', { type: 'image_url', image_url: { url: dataUrl(png(9_000_000)) } }, 422, 'validation_failed'],
    ['that do not exist', { type: 'file', file: { file_id: 'file_none' } }, 404, 'file_not_found'],
    ['and sound', { type: 'input_audio', input_audio: {} }, 422, 'unsupported_parameter'],
  ])('are refused %s', async (_name, part, status, code) => {
    expect(await refusal(await chat(VISION, [text('See?'), part]))).toEqual([status, code, 'messages[0].content[1]']);
  });

  it('are refused when there are too many, and in messages that are not of the user', async () => {
    expect((await refusal(await chat(VISION, Array(4).fill(PIXELS)))) as unknown[]).toContain('validation_failed');
    const messages = [{ role: 'system', content: [PIXELS] }];
    expect(await refusal(await bed.post('/v1/chat/completions', { model: VISION, messages }))).toEqual([
      422,
      'unsupported_parameter',
      'messages[0].content[0]',
    ]);
  });
});

describe('images in embeddings', () => {
  const embed = (model: string, input: unknown, region = 'local') =>
    bed.fetch('/v1/embeddings', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-service-region': region },
      body: JSON.stringify({ model, input }),
    });

  it('are sent one by one, beside the texts', async () => {
    const url = dataUrl(png());
    const answer = await embed(CLIP, ['a cat', { text: 'a dog' }, { image: url }, { image: await upload(png()) }]);
    const { data } = (await answer.json()) as { data: { index: number }[] };
    expect(data.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    const inputs = clip.requests.map(({ body }) => (body as { input: unknown }).input);
    expect(inputs).toHaveLength(3);
    expect(inputs).toEqual(expect.arrayContaining([['a cat', 'a dog'], [{ image: url }], [{ image: url }]]));
  });

  it('are messages for vLLM', async () => {
    const url = dataUrl(png());
    clipAtVllm.script.push((_request, response) => {
      const answer = { data: [{ index: 0, embedding: Array(1024).fill(1) }], usage: { prompt_tokens: 99 } };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
    const answer = await embed(CLIP, [{ image: url }], 'nairobi');
    expect(await answer.json()).toMatchObject({ usage: { prompt_tokens: 99 } });
    expect(clipAtVllm.requests[0]?.body).toMatchObject({
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
    });
  });

  it('are refused where the model or its upstream takes text only', async () => {
    const input = ['a cat', { image: dataUrl(png()) }];
    expect(await refusal(await embed(EMBEDDING, input))).toEqual([422, 'unsupported_parameter', 'input[1].image']);
    expect(await refusal(await embed(CLIP, input, 'lagos'))).toEqual([422, 'unsupported_parameter', 'input[1]']);
    expect(await refusal(await embed(CLIP, [{ image: 'https://images.example/' }]))).toEqual([
      422,
      'unsupported_parameter',
      'input[0].image',
    ]);
    expect((await embed(EMBEDDING, [{ text: 'a cat' }, 'a dog'])).status).toBe(200);
  });
});
