import { expect, it } from 'vitest';
import { checkInputs, refuseImages } from './replicated-engine.ts';

const image = { url: 'data:image/png;base64,', tokens: 256 };

it('models that run here refuse images without an encoder for them, and name the input', () => {
  expect(() => checkInputs(['a', [1, 2]], { images: false })).not.toThrow();
  expect(() => checkInputs(['a', image], { images: false })).toThrow(
    expect.objectContaining({ code: 'unsupported_parameter', field: ['inputs', 1] }),
  );
});

it('models that run here take images with the request only', () => {
  expect(() => checkInputs(['a', image], { images: true })).not.toThrow();
  expect(() => checkInputs([{ ...image, url: 'https://images.test/cat.png' }], { images: true })).toThrow(
    expect.objectContaining({ code: 'unsupported_parameter', field: ['inputs', 0, 'image'] }),
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
