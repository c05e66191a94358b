import { describe, expect, it } from 'vitest';
import { writeEmbeddings } from './endpoint.ts';

const head = { model: 'acme/"quoted"', promptTokens: 7 };

function randomVectors(rows: number, dimensions: number): Float32Array {
  let state = 42;
  return Float32Array.from({ length: rows * dimensions }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

const parse = async (body: Parameters<typeof writeEmbeddings>[0]) =>
  JSON.parse((await writeEmbeddings(body)).toString());

describe('writeEmbeddings', () => {
  it('writes the JSON that a client reads back to the same float32 values', async () => {
    const vectors = randomVectors(3, 16);
    vectors.set([0, -0, 1, -1, 1e-8, -3.4e-12, 0.1, 123.5], 0);
    const answer = await parse({ ...head, vectors, dimensions: 16, format: 'float' });
    expect(answer).toEqual({
      object: 'list',
      data: [0, 1, 2].map((index) => ({ object: 'embedding', index, embedding: expect.any(Array) })),
      model: 'acme/"quoted"',
      usage: { prompt_tokens: 7, total_tokens: 7 },
    });
    const read = Float32Array.from(answer.data.flatMap(({ embedding }: { embedding: number[] }) => embedding));
    expect([...read]).toEqual([...vectors].map((value) => value + 0));
  });

  it('writes the same bytes as base64 of little-endian float32', async () => {
    const vectors = randomVectors(2, 5);
    const answer = await parse({ ...head, vectors, dimensions: 5, format: 'base64' });
    for (const [row, { embedding }] of answer.data.entries()) {
      const bytes = Buffer.from(embedding, 'base64');
      const read = Array.from({ length: 5 }, (_, index) => bytes.readFloatLE(index * 4));
      expect(read).toEqual([...vectors.subarray(row * 5, row * 5 + 5)]);
    }
  });

  it('grows its buffer for rows that are longer than the first ones', async () => {
    const vectors = new Float32Array(64 * 256);
    vectors.set(randomVectors(40, 256), 3 * 256);
    vectors.fill(-1.2345679e-30, 50 * 256, 52 * 256);
    const { data } = await parse({ ...head, vectors, dimensions: 256, format: 'float' });
    expect(data.map(({ index }: { index: number }) => index)).toEqual(Array.from({ length: 64 }, (_, row) => row));
    const read = Float32Array.from(data.flatMap(({ embedding }: { embedding: number[] }) => embedding));
    expect([...read]).toEqual([...vectors]);
  });

  it('writes a part of a larger buffer', async () => {
    const all = randomVectors(4, 8);
    const answer = await parse({ ...head, vectors: all.subarray(16), dimensions: 8, format: 'base64' });
    expect(answer.data).toHaveLength(2);
    expect(Buffer.from(answer.data[0].embedding, 'base64').readFloatLE(0)).toBe(all[16]);
  });

  it('yields to other work while it writes a large answer', async () => {
    let turns = 0;
    let written = false;
    const count = () => {
      turns += 1;
      if (!written) setImmediate(count);
    };
    setImmediate(count);
    const body = await writeEmbeddings({
      ...head,
      vectors: randomVectors(4_096, 1024),
      dimensions: 1024,
      format: 'float',
    });
    written = true;
    expect(body.length).toBeGreaterThan(4_096 * 1024 * 8);
    // Four million floats take far longer than one turn.
    expect(turns).toBeGreaterThan(5);
  });
});
