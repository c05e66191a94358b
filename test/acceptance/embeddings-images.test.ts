import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CLIP_DIRECTORY, cosine, dataUrl, drawn, reference } from '../fixtures/clip/images.ts';
import { baobab } from './command.ts';
import { postJson } from './post-json.ts';
import { type RunningServer, startServer } from './start-server.ts';

interface Answer {
  data: { embedding: number[]; index: number }[];
  usage: { prompt_tokens: number; total_tokens: number };
  error: { code: string; param: string; message: string };
}

const MODEL = 'acme/clip';
const { images, texts } = reference;
const { camera, photo } = images;
const [cat, dogs] = texts.map(({ text, tokens, vector }) => ({ text, tokens, vector }));
/** Of any small image, until an engine counts them. */
const IMAGE_TOKENS = 256;

describe('a CLIP model that runs here', () => {
  let server: RunningServer;
  let png: Buffer;
  beforeAll(async () => {
    server = await startServer({ env: { BAOBAB_ENGINES_ONNX_PROCESSES: '2' } });
    png = await drawn(photo.width, photo.height).png().toBuffer();
    const added = await baobab(server.dataDir, ['models', 'add', CLIP_DIRECTORY, '--slug', MODEL]);
    expect(added).toMatchObject({ exitCode: 0 });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  async function embed(input: unknown, more: object = {}) {
    const answer = await postJson(server, '/v1/embeddings', { model: MODEL, input, ...more });
    return { status: answer.status, body: (await answer.json()) as Answer };
  }
  const get = async (path: string) => {
    const answer = await fetch(`${server.address}${path}`, { headers: { authorization: `Bearer ${server.apiKey}` } });
    return answer.json();
  };

  it('is listed with vision and the facts of its folder', async () => {
    expect(await get(`/v1/models/${encodeURIComponent(MODEL)}`)).toMatchObject({
      modality: 'embedding',
      context_length: 24,
      dimensions: 16,
      capabilities: { vision: true, tools: false },
    });
  });

  it('embeds texts and images of one request, as data URLs and as uploaded files, and counts each once', async () => {
    const form = new FormData();
    form.set('purpose', 'vision');
    form.set('file', new Blob([Uint8Array.from(png)]), 'photo.png');
    const headers = { authorization: `Bearer ${server.apiKey}` };
    const uploaded = await fetch(`${server.address}/v1/files`, { method: 'POST', headers, body: form });
    const { id } = (await uploaded.json()) as { id: string };
    const before = (await get('/v1/usage?start=2020-01-01')) as { totals: { prompt_tokens: number } };
    const { status, body } = await embed([{ text: cat?.text }, { image: dataUrl(png) }, dogs?.text, { image: id }]);
    expect(status).toBe(200);
    const expected = [cat?.vector, photo.vector, dogs?.vector, photo.vector];
    body.data.forEach(({ embedding, index }) => {
      expect(cosine(embedding, expected[index] ?? [])).toBeGreaterThan(0.999);
    });
    expect(body.data).toHaveLength(4);
    const tokens = (cat?.tokens ?? 0) + (dogs?.tokens ?? 0) + 2 * IMAGE_TOKENS;
    expect(body.usage).toEqual({ prompt_tokens: tokens, total_tokens: tokens });
    const after = (await get('/v1/usage?start=2020-01-01')) as typeof before;
    expect(after.totals.prompt_tokens - before.totals.prompt_tokens).toBe(tokens);
  });

  it('answers 422 for a damaged image and names it, while others are answered', async () => {
    const damaged = { image: dataUrl(png.subarray(0, png.length / 2)) };
    const inputs = Array.from({ length: 15 }, () => ({ image: dataUrl(png) }));
    const [bad, good] = await Promise.all([embed([...inputs, damaged]), embed(inputs)]);
    expect([bad.status, bad.body.error.code, bad.body.error.param]).toEqual([
      422,
      'validation_failed',
      'input[15].image',
    ]);
    expect(good.status).toBe(200);
    expect(good.body.data).toHaveLength(15);
    expect(good.body.usage.prompt_tokens).toBe(15 * IMAGE_TOKENS);
    expect((await embed([{ image: dataUrl(png) }])).status).toBe(200);
  });

  it('takes a photo of a camera', async () => {
    const jpeg = await drawn(camera.width, camera.height).jpeg({ quality: 95 }).toBuffer();
    const { status, body } = await embed([{ image: dataUrl(jpeg, 'image/jpeg') }]);
    expect(status).toBe(200);
    expect(cosine(body.data[0]?.embedding ?? [], camera.vector)).toBeGreaterThan(0.999);
  });

  it('answers 422 for a text that is too long, and names it among images', async () => {
    const { status, body } = await embed([{ image: dataUrl(png) }, 'a cat '.repeat(20)]);
    expect([status, body.error.code, body.error.param]).toEqual([422, 'context_length_exceeded', 'input[1]']);
  });
});
