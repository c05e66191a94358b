import { expect, it } from 'vitest';
import { messagesOf } from './input.ts';
import type { InputItemBody } from './schema.ts';

const reasoning = (text: string): InputItemBody => ({ type: 'reasoning', content: [{ type: 'reasoning_text', text }] });
const said = (content: string): InputItemBody => ({ role: 'assistant', content });

it('joins the items of a turn to one message', () => {
  const call: InputItemBody = { type: 'function_call', call_id: 'c', name: 'f' };
  expect(
    messagesOf([said(''), reasoning('a'), reasoning(''), said('b'), reasoning('c'), said(''), said('d'), call]),
  ).toEqual([
    {
      role: 'assistant',
      content: 'b\n\n\n\nd',
      reasoning: 'a\n\nc',
      toolCalls: [{ id: 'c', name: 'f', arguments: '{}' }],
    },
  ]);
  expect(messagesOf([reasoning('cut off'), { role: 'user', content: 'a' }])).toMatchObject([{ role: 'user' }]);
});

it('takes ten times as long for ten times as many items of a turn', () => {
  const items = [said('a'), ...Array.from({ length: 20_000 }, () => reasoning('x'.repeat(400)))];
  const processorMs = (count: number): number => {
    const began = process.cpuUsage();
    messagesOf(items.slice(0, count));
    const { user, system } = process.cpuUsage(began);
    return (user + system) / 1_000;
  };
  const least = (count: number) => Math.min(...Array.from({ length: 5 }, () => processorMs(count)));
  // A hundred times as long, if each item copied those before it.
  expect(least(20_000)).toBeLessThan(40 * Math.max(0.1, least(2_000)));
});
