import { expect, it } from 'vitest';
import { DEFAULT_SCOPES, parseScopes, SCOPES } from './scopes.ts';

it('gives a new key everything but prompts, keys and admin', () => {
  expect(DEFAULT_SCOPES).toEqual(['chat', 'embeddings', 'rerank', 'audio', 'files', 'batches', 'models', 'usage']);
});

it('expands inference to its four scopes', () => {
  expect(parseScopes(['inference'])).toEqual(['chat', 'embeddings', 'rerank', 'audio']);
  expect(parseScopes(['usage', 'inference', 'chat'])).toEqual(['chat', 'embeddings', 'rerank', 'audio', 'usage']);
});

it('sorts scopes and removes duplicates', () => {
  expect(parseScopes([...SCOPES].reverse().concat('admin'))).toEqual(SCOPES);
});

it('names an unknown scope and what is allowed', () => {
  expect(() => parseScopes(['chat', 'root'])).toThrow(
    "unknown scope 'root'; allowed: chat, embeddings, rerank, audio, files, batches, models, usage, prompts, keys, admin, inference",
  );
});
