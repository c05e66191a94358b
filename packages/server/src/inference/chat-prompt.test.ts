import { describe, expect, it } from 'vitest';
import type { ChatCommand } from './chat-command.ts';
import { withDocuments } from './chat-prompt.ts';

const document = (message: number, at: number) => ({
  source: { fileId: 'file_1' },
  tag: 'file' as const,
  field: 'f',
  message,
  at,
});
const image = (message: number, at: number) => ({ source: { url: 'data:' }, field: 'i', message, at });
const command = (changes: Partial<ChatCommand>): ChatCommand => ({
  model: 'acme/chat',
  choices: 1,
  request: {
    prompt: {
      messages: [
        { role: 'user', content: 'Hello' },
        { role: 'user', content: 'before after' },
      ],
    },
  },
  ...changes,
});

describe('withDocuments', () => {
  it('puts texts into their places and moves the images behind them', () => {
    const given = command({
      documents: [document(1, 7), document(1, 12)],
      images: [image(0, 5), image(1, 3), image(1, 9)],
    });
    const { request, images, documents } = withDocuments(given, ['<one>', '<two>']);
    expect(request.prompt).toEqual({
      messages: [
        { role: 'user', content: 'Hello' },
        { role: 'user', content: 'before <one>after<two>' },
      ],
    });
    expect(images?.map(({ message, at }) => [message, at])).toEqual([
      [0, 5],
      [1, 3],
      [1, 14],
    ]);
    expect(documents).toBeUndefined();
  });

  it('adds documents that are images to the images, in order', () => {
    const given = command({ documents: [document(0, 2), document(0, 5)], images: [image(1, 0)] });
    const { images, request } = withDocuments(given, [{ source: { fileId: 'file_1' }, field: 'f' }, '<text>']);
    expect(images?.map(({ message, at, source }) => [message, at, source])).toEqual([
      [0, 2, { fileId: 'file_1' }],
      [1, 0, { url: 'data:' }],
    ]);
    expect(request.prompt).toMatchObject({ messages: [{ content: 'Hello<text>' }, {}] });
  });
});
