import { expect, it } from 'vitest';
import { refuseImages, textInputs } from './text-only.ts';

const image = { url: 'data:image/png;base64,', tokens: 256 };

it('models that run here refuse images and name the input', () => {
  expect(textInputs(['a', [1, 2]])).toEqual(['a', [1, 2]]);
  expect(() => textInputs(['a', image])).toThrow(
    expect.objectContaining({ code: 'unsupported_parameter', field: ['inputs', 1] }),
  );
});

it('models that run here refuse images and name the message', () => {
  const messages = [
    { role: 'user' as const, content: 'Hi' },
    { role: 'user' as const, content: '', images: [{ ...image, at: 0 }] },
  ];
  expect(() => refuseImages({ prompt: { messages: messages.slice(0, 1) } })).not.toThrow();
  expect(() => refuseImages({ prompt: { text: 'Hi' } })).not.toThrow();
  expect(() => refuseImages({ prompt: { messages } })).toThrow(
    expect.objectContaining({ code: 'unsupported_parameter', field: ['messages', 1, 'content'] }),
  );
});
