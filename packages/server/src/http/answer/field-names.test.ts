import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import { describe, expect, it } from 'vitest';
import { clientName, nameFields } from './field-names.ts';

const NAMES = {
  maxTokens: 'max_tokens',
  format: 'response_format',
  'format.schema': 'response_format.json_schema.schema',
  'tools.*.parameters': 'tools.*.function.parameters',
};

describe('clientName', () => {
  it('replaces inner names and keeps indexes', () => {
    expect(clientName(['maxTokens'], NAMES)).toBe('max_tokens');
    expect(clientName(['messages', 3, 'content'], NAMES)).toBe('messages[3].content');
  });

  it('applies the longest path of the table', () => {
    expect(clientName(['format'], NAMES)).toBe('response_format');
    expect(clientName(['format', 'schema', 'properties', 'maxTokens'], NAMES)).toBe(
      'response_format.json_schema.schema.properties.maxTokens',
    );
    expect(clientName(['tools', 2, 'parameters', 'anyOf', 1], NAMES)).toBe('tools[2].function.parameters.anyOf[1]');
  });

  it('knows the names that all endpoints share', () => {
    expect(clientName(['idempotencyKey'])).toBe('Idempotency-Key');
  });
});

describe('an error with fields', () => {
  it('is written with the names of the client, in the message too', () => {
    const error = errors.invalidParameter(
      ['maxTokens'],
      fieldText`${['maxTokens']} is ${5}, but ${['tools', 0]} is 'x'.`,
    );
    expect(error.message).toBe("'maxTokens' is 5, but 'tools[0]' is 'x'.");
    const written = error.mapFields((path) => clientName(path, NAMES));
    expect([written.code, written.param, written.message]).toEqual([
      'invalid_parameter',
      'max_tokens',
      "'max_tokens' is 5, but 'tools[0]' is 'x'.",
    ]);
  });

  it('keeps its cause and its retry time', () => {
    const cause = new Error('why');
    const error = new ApiError('validation_failed', 'no', { field: ['maxTokens'], retryAfterSeconds: 3, cause });
    expect(error.mapFields((path) => clientName(path, NAMES))).toMatchObject({
      param: 'max_tokens',
      retryAfterSeconds: 3,
      cause,
    });
  });

  it('is an internal error when its names cannot be found', () => {
    const cause = new TypeError('no names');
    const names = () => {
      throw cause;
    };
    expect(nameFields(errors.missingParameter(['maxTokens']), names, {})).toMatchObject({
      code: 'internal_error',
      cause,
    });
  });

  it('keeps a name that the client sent', () => {
    const error = errors.missingParameter('maxTokens');
    expect(error.mapFields((path) => clientName(path, NAMES)).param).toBe('maxTokens');
  });
});
