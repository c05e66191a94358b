import type { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Token } from 'node-llama-cpp';
import { describe, expect, it } from 'vitest';
import { createPromptTokenizer } from './prompt-tokenizer.ts';

/** One token for every word; remembers how much it was given at once. */
function wordTokenizer() {
  const sizes: number[] = [];
  const tokenizer = createPromptTokenizer(
    {
      tokens: { bos: 1 as Token, shouldPrependBosToken: true },
      tokenize(text: string) {
        sizes.push(text.length);
        return text
          .split(' ')
          .filter(Boolean)
          .map((word) => word.length as Token);
      },
    },
    32_000,
  );
  return { tokenizer, sizes };
}

const limit = (tokens: number, signal = new AbortController().signal) => ({ field: ['messages'], tokens, signal });
const refused = { code: 'context_length_exceeded', status: 422, param: 'messages' };

describe('a prompt', () => {
  it('that fits is tokenized as a whole at any length', async () => {
    const { tokenizer, sizes } = wordTokenizer();
    const text = 'word '.repeat(10_000);
    expect(await tokenizer.text(text, limit(10_001))).toHaveLength(10_001);
    expect(sizes.at(-1)).toBe(text.length);
  });

  it('of megabytes is refused without reading most of it, in slices', async () => {
    const { tokenizer, sizes } = wordTokenizer();
    const text = 'word '.repeat(4_000_000);
    await expect(tokenizer.text(text, limit(2047))).rejects.toMatchObject(refused);
    await expect(tokenizer.parts([{ text, literal: false }], limit(2047))).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('resulted in 2048 tokens or more'),
    });
    // Clients of other APIs know the field by another name.
    const error = await tokenizer.text(text, limit(2047)).catch((thrown: ApiError) => thrown.mapFields(() => 'input'));
    expect(error).toMatchObject({ param: 'input', message: expect.stringMatching(/resulted in \d+ tokens or more/) });
    expect(Math.max(...sizes)).toBeLessThan(20_000);
    expect(sizes.length).toBeLessThan(15);
  });

  it('of very many parts is refused', async () => {
    const { tokenizer, sizes } = wordTokenizer();
    const many = new Array(1_000_000).fill({ text: '</s>', literal: true });
    await expect(tokenizer.parts(many, limit(2047))).rejects.toMatchObject(refused);
    expect(sizes).toEqual([]);
    const large = new Array(2_000).fill({ text: 'word '.repeat(3_000), literal: true });
    await expect(tokenizer.parts(large, limit(2047))).rejects.toMatchObject(refused);
    expect(sizes).toHaveLength(1);
  });

  it('is counted in slices, which end when its client disconnects', async () => {
    const client = new AbortController();
    const tokenizer = createPromptTokenizer(
      {
        tokens: { bos: null, shouldPrependBosToken: false },
        tokenize() {
          const end = performance.now() + 20;
          while (performance.now() < end);
          return [];
        },
      },
      32_000,
    );
    const counting = tokenizer.text('x'.repeat(100_000_000), limit(2047, client.signal));
    setImmediate(() => client.abort());
    await expect(counting).rejects.toMatchObject({ code: 'client_cancelled' });
  });
});
