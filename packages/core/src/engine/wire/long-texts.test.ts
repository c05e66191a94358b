import { describe, expect, it } from 'vitest';
import { turnsDuring } from '../../../../../test/fixtures/turns-during.ts';
import type { ChatRequest } from '../engine.ts';
import { joinPrompt, splitPrompt } from './long-texts.ts';

const CHARS = 300_000;

async function splitAndJoined(prompt: ChatRequest['prompt']) {
  const split = await splitPrompt(prompt);
  if (split === undefined) throw new Error('nothing was split');
  const header = JSON.stringify({ prompt: split.prompt, longTexts: split.longTexts });
  const read = JSON.parse(header) as Pick<typeof split, 'prompt' | 'longTexts'>;
  return { header, prompt: joinPrompt(read.prompt, read.longTexts, split.body) };
}

describe('long texts of a prompt', () => {
  it('leave the header and come back to their messages', async () => {
    const prompt: ChatRequest['prompt'] = {
      messages: [
        { role: 'system', content: 'be short' },
        { role: 'user', content: 'a"\n'.repeat(CHARS), name: 'ada' },
        { role: 'assistant', content: '', toolCalls: [{ id: 'call_1', name: 'look', arguments: '{}' }] },
        { role: 'tool', content: 'ü€'.repeat(CHARS), toolCallId: 'call_1' },
      ],
    };
    const { header, prompt: joined } = await splitAndJoined(prompt);
    expect(header.length).toBeLessThan(1_000);
    expect(joined).toEqual(prompt);
  });

  it('may be the whole prompt, and be cut anywhere', async () => {
    for (const offset of ['', 'x']) {
      const prompt = { text: `${offset}${'🌳'.repeat(700_000)}` };
      expect((await splitAndJoined(prompt)).prompt).toEqual(prompt);
    }
  });

  it('let others work while they are written', async () => {
    expect(await turnsDuring(() => splitPrompt({ text: 'word '.repeat(1_600_000) }))).toBeGreaterThan(5);
  });

  it('stay where they are when they are short, or nothing that UTF-8 can hold', async () => {
    expect(splitPrompt({ messages: [{ role: 'user', content: 'hello' }] })).toBeUndefined();
    expect(splitPrompt({ tokens: [1, 2, 3] })).toBeUndefined();
    expect(await splitPrompt({ text: `${'x'.repeat(CHARS)}\ud800` })).toBeUndefined();
  });
});
