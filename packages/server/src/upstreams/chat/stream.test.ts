import { setImmediate as nextTurn } from 'node:timers/promises';
import { turnShares } from '@baobab/core/runtime/turn-shares.ts';
import { expect, it } from 'vitest';
import type { UpstreamCall } from '../routing/upstream-call.ts';
import type { StreamedAnswer } from '../transport/stream.ts';
import { type AnswerPiece, ChatChunks } from './answer.ts';
import { StreamReader } from './stream.ts';

const piece = (content: string) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;

it('passes on what an upstream sends when its account has its share of the event loop', async () => {
  const heavy = { name: 'heavy', weight: 1 };
  let arrive: Parameters<StreamedAnswer['deliver']>[0] = () => false;
  const answer = {
    headers: {},
    read: () => piece('one'),
    deliver(take: typeof arrive) {
      arrive = take;
      return new Promise(() => {});
    },
  } as unknown as StreamedAnswer;
  const reader = new StreamReader(answer, {
    call: { answerBegan() {} } as UpstreamCall,
    share: heavy,
    field: ['messages'],
    chunks: new ChatChunks({ promptTokens: 1, mostCompletionTokens: 10 }),
  });
  const texts: string[] = [];
  const take = (pieces: readonly AnswerPiece[]) => {
    for (const piece of pieces) if (typeof piece !== 'string' && piece.type === 'text-delta') texts.push(piece.text);
    return true;
  };

  turnShares.take({ name: 'light', weight: 1 });
  turnShares.take(heavy);
  const first = reader.first();
  await undefined;
  expect(reader.chunks.usage.completionTokens).toBe(0);
  take(await first);
  void reader.deliver(take);
  turnShares.take(heavy);
  const taken = arrive(piece('two'));
  expect(texts).toEqual(['one']);
  await nextTurn();
  expect(await taken).toBe(true);
  expect(texts).toEqual(['one', 'two']);
});
