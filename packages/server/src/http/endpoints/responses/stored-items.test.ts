import type { StoredResponse } from '@baobab/core/domain/response.ts';
import { expect, it } from 'vitest';
import { itemsOf } from './stored-items.ts';

it('reads answers with the probabilities of thousands of tokens, which have more names than a body may have', async () => {
  const one = { token: 'a', bytes: [97], logprob: -1 };
  const logprobs = Array.from({ length: 2_500 }, () => ({ ...one, top_logprobs: Array(20).fill(one) }));
  const message = { id: 'msg_1_0', type: 'message', content: [{ type: 'output_text', text: 'a', logprobs }] };
  const response = { input: '[]', content: JSON.stringify({ output: [message] }) } as StoredResponse;
  expect(await itemsOf([response])).toEqual([message]);
});
