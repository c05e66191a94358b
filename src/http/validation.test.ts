import { type TSchema, Type } from 'typebox';
import { describe, expect, it } from 'vitest';
import { ChatCompletionRequest } from './schemas/chat.ts';
import { EmbeddingRequest } from './schemas/embeddings.ts';
import { compileValidator } from './validation.ts';

function check(schema: TSchema, data: unknown, httpPart = 'body') {
  const validate = compileValidator({ schema, method: 'POST', url: '/', httpPart });
  return validate(data) as { value?: unknown; error?: { code: string; param: string | null; message: string } };
}
const problem = (schema: TSchema, data: unknown) => {
  const { error } = check(schema, data);
  return error && [error.code, error.param, error.message];
};

describe('messages', () => {
  const user = { role: 'user', content: 'a' };
  it.each<[string, TSchema, unknown, string, string | null, RegExp]>([
    ['nothing', EmbeddingRequest, {}, 'missing_parameter', 'model', /'model' is required/],
    [
      'a wrong type',
      EmbeddingRequest,
      { model: 5, input: 'a' },
      'invalid_parameter',
      'model',
      /must be a non-empty string/,
    ],
    [
      'the item of a list',
      EmbeddingRequest,
      { model: 'm', input: ['a', 5] },
      'invalid_parameter',
      'input[1]',
      /must be a non-empty string/,
    ],
    [
      'the first bad item of a long list',
      EmbeddingRequest,
      { model: 'm', input: Array.from({ length: 2048 }, (_, index) => (index === 1500 || index === 2000 ? '' : 'a')) },
      'invalid_parameter',
      'input[1500]',
      /non-empty/,
    ],
    [
      'none of several types',
      EmbeddingRequest,
      { model: 'm', input: {} },
      'invalid_parameter',
      'input',
      /must be a non-empty string or a non-empty array/,
    ],
    [
      'a number too small',
      EmbeddingRequest,
      { model: 'm', input: 'a', dimensions: 0 },
      'invalid_parameter',
      'dimensions',
      /must be a whole number from 1/,
    ],
    [
      'a broken number',
      EmbeddingRequest,
      { model: 'm', input: 'a', dimensions: 1.5 },
      'invalid_parameter',
      'dimensions',
      /whole number/,
    ],
    [
      'an unknown choice',
      EmbeddingRequest,
      { model: 'm', input: 'a', encoding_format: 'hex' },
      'invalid_parameter',
      'encoding_format',
      /one of "float", "base64"/,
    ],
    [
      'a field inside a list',
      ChatCompletionRequest,
      { model: 'm', messages: [user, { content: 'a' }] },
      'missing_parameter',
      'messages[1].role',
      /required/,
    ],
    [
      'an empty list',
      ChatCompletionRequest,
      { model: 'm', messages: [] },
      'invalid_parameter',
      'messages',
      /non-empty array/,
    ],
    ['no object', EmbeddingRequest, [], 'invalid_parameter', null, /must be a JSON object/],
  ])('tell of %s', (_, schema, data, code, param, message) => {
    expect(problem(schema, data)).toEqual([code, param, expect.stringMatching(message)]);
  });
});

describe('types', () => {
  const schema = Type.Object({ limit: Type.Optional(Type.Integer()), flag: Type.Optional(Type.Boolean()) });

  it('of bodies are taken as they are', () => {
    expect(check(schema, { limit: '5' }).error).toMatchObject({ param: 'limit' });
    expect(check(schema, { flag: 'true' }).error).toMatchObject({ param: 'flag' });
  });

  it('of query strings are read from their text', () => {
    expect(check(schema, { limit: '5', flag: 'true' }, 'querystring').value).toEqual({ limit: 5, flag: true });
    expect(check(schema, { limit: 'five' }, 'querystring').error).toMatchObject({ param: 'limit' });
  });

  it('of unknown fields do not matter', () => {
    expect(check(schema, { limit: 5, store: true, metadata: { a: 1 } }).error).toBeUndefined();
  });
});
