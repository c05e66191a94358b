import { type TSchema, Type } from 'typebox';
import { describe, expect, it } from 'vitest';
import { ChatCompletionRequest } from '../endpoints/chat/schema.ts';
import { EmbeddingRequest } from '../endpoints/embeddings/schema.ts';
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
      'too many items',
      ChatCompletionRequest,
      { model: 'm', messages: Array.from({ length: 10_001 }, () => user) },
      'validation_failed',
      'messages',
      /'messages' has 10001 items; at most 10000 are accepted/,
    ],
    [
      'too many items of one of several types',
      ChatCompletionRequest,
      { model: 'm', messages: [user], stop: Array.from({ length: 17 }, () => 'a') },
      'validation_failed',
      'stop',
      /'stop' has 17 items; at most 16 are accepted/,
    ],
    [
      'a text that is too long',
      ChatCompletionRequest,
      { model: 'm'.repeat(513), messages: [user] },
      'invalid_parameter',
      'model',
      /must be a non-empty string of at most 512 characters/,
    ],
    [
      'a text that is longer than most limits',
      ChatCompletionRequest,
      { model: 'm', messages: [user], user: 'x'.repeat(65_537) },
      'invalid_parameter',
      'user',
      /must be a string of at most 65536 characters/,
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
      /must not be empty/,
    ],
    [
      'a text among token ids',
      EmbeddingRequest,
      { model: 'm', input: [1, 2, 'a'] },
      'invalid_parameter',
      'input[2]',
      /must be a whole number of at least 0/,
    ],
    [
      'an unknown kind of part',
      ChatCompletionRequest,
      { model: 'm', messages: [{ role: 'user', content: [{ type: 'smell' }] }] },
      'invalid_parameter',
      'messages[0].content[0].type',
      /must be "text", "image_url", "file", "input_audio" or "refusal"/,
    ],
    [
      'an unknown kind of format',
      ChatCompletionRequest,
      { model: 'm', messages: [user], response_format: { type: 'xml' } },
      'invalid_parameter',
      'response_format.type',
      /must be "text", "json_object" or "json_schema"/,
    ],
    [
      'more choices than are given',
      ChatCompletionRequest,
      { model: 'm', messages: [user], n: 9 },
      'invalid_parameter',
      'n',
      /must be a whole number from 1 to 8/,
    ],
    [
      'what a kind of part lacks',
      ChatCompletionRequest,
      { model: 'm', messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }, { type: 'text' }] }] },
      'missing_parameter',
      'messages[0].content[1].text',
      /required/,
    ],
    [
      'a field deep inside one of several formats',
      ChatCompletionRequest,
      { model: 'm', messages: [user], response_format: { type: 'json_schema', json_schema: { name: 5 } } },
      'invalid_parameter',
      'response_format.json_schema.name',
      /must be a string, or null/,
    ],
    [
      'the value of a free-form object',
      ChatCompletionRequest,
      { model: 'm', messages: [user], logit_bias: { 7: 1000 } },
      'invalid_parameter',
      'logit_bias[7]',
      /must be a number from -100 to 100/,
    ],
    [
      'none of several types',
      EmbeddingRequest,
      { model: 'm', input: {} },
      'invalid_parameter',
      'input',
      /must be a non-empty string, a non-empty array of strings or objects, a non-empty array of whole numbers or /,
    ],
    [
      'an empty value where one is needed',
      EmbeddingRequest,
      { model: 'm', input: [] },
      'invalid_parameter',
      'input',
      /^'input' must not be empty\.$/,
    ],
    [
      'a number too small',
      EmbeddingRequest,
      { model: 'm', input: 'a', dimensions: 0 },
      'invalid_parameter',
      'dimensions',
      /must be a whole number of at least 1/,
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
      /'messages' must not be empty/,
    ],
    ['no object', EmbeddingRequest, [], 'invalid_parameter', null, /must be a JSON object/],
  ])('report %s', (_, schema, data, code, param, message) => {
    expect(problem(schema, data)).toEqual([code, param, expect.stringMatching(message)]);
  });
});

it('finds the error in a body of a million items without listing each', () => {
  const input: unknown[] = new Array(1_000_000).fill(true);
  expect(problem(EmbeddingRequest, { model: 'm', input })?.[1]).toBe('input[0]');
  input.fill(1)[999_999] = 'a';
  expect(problem(EmbeddingRequest, { model: 'm', input })?.[1]).toBe('input[999999]');
});

describe('types', () => {
  const schema = Type.Object({ limit: Type.Optional(Type.Integer()), flag: Type.Optional(Type.Boolean()) });

  it('of bodies are not converted', () => {
    expect(check(schema, { limit: '5' }).error).toMatchObject({ param: 'limit' });
    expect(check(schema, { flag: 'true' }).error).toMatchObject({ param: 'flag' });
  });

  it('of query strings are converted from text', () => {
    expect(check(schema, { limit: '5', flag: 'true' }, 'querystring').value).toEqual({ limit: 5, flag: true });
    expect(check(schema, { limit: 'five' }, 'querystring').error).toMatchObject({ param: 'limit' });
  });

  it('of unknown fields are ignored', () => {
    expect(check(schema, { limit: 5, store: true, metadata: { a: 1 } }).error).toBeUndefined();
  });
});
