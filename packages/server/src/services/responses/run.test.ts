import type { ChatMessage } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { withoutOldest } from './run.ts';

const message = (role: ChatMessage['role'], content: string): ChatMessage => ({ role, content });
const command = (messages: ChatMessage[], images: number[] = []) => ({
  model: 'm',
  choices: 1,
  request: { prompt: { messages } },
  images: images.map((index) => ({ source: { url: 'data:' }, field: 'x', message: index, at: 0 })),
});

describe('a chat that is too long', () => {
  const long = [
    message('system', 'rules'),
    message('user', 'one'),
    message('assistant', 'call'),
    message('tool', 'result'),
    message('user', 'two'),
    message('assistant', 'answer'),
    message('user', 'three'),
  ];

  it('loses its oldest turn, not its instructions and no half of a call', () => {
    const shorter = withoutOldest(command(long, [1, 4]));
    expect(shorter?.request.prompt).toEqual({ messages: [long[0], ...long.slice(4)] });
    expect(shorter?.images).toMatchObject([{ message: 1 }]);
  });

  it('keeps its last turn', () => {
    expect(withoutOldest(command([message('system', 'rules'), message('user', 'three')]))).toBeUndefined();
    expect(withoutOldest(command([message('user', 'three')]))).toBeUndefined();
  });
});
