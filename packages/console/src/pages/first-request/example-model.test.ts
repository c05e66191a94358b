import { expect, it } from 'vitest';
import { exampleModel } from './example-model.ts';

const models = [
  { id: 'acme/large', modality: 'chat', status: 'unavailable' },
  { id: 'acme/small', modality: 'chat', status: 'cold' },
  { id: 'baobab/embed', modality: 'embedding', status: 'ready' },
  { id: 'openai/whisper', modality: 'audio', status: 'ready' },
] as const;
const found = (use: Parameters<typeof exampleModel>[1]) => exampleModel(models, use)?.id;

it('prefers chat, and models that can answer', () => {
  expect(found({})).toBe('acme/small');
  expect(exampleModel([...models, { id: 'z/warm', modality: 'chat', status: 'ready' }], {})?.id).toBe('z/warm');
  expect(exampleModel([models[0], models[2]], {})?.id).toBe('baobab/embed');
  expect(exampleModel([models[0]], {})?.id).toBe('acme/large');
});

it('keeps to the models and scopes of the key', () => {
  expect(found({ models: ['baobab/*'] })).toBe('baobab/embed');
  expect(found({ scopes: ['embeddings', 'models'] })).toBe('baobab/embed');
  expect(found({ models: ['acme/*'], scopes: ['embeddings'] })).toBeUndefined();
  expect(found({ models: ['openai/whisper'] })).toBeUndefined();
});
