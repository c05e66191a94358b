import { describe, expect, it } from 'vitest';
import { refuseUnkept } from './unkept.ts';

const UNKEPT = { mirostat: [0], normalize: [true], ranks: ['text'], functions: { instead: 'tools' } };
const refuse = (body: object) => () => refuseUnkept(body, UNKEPT);

describe('fields that nothing keeps', () => {
  it.each<Record<string, unknown>>([
    { mirostat: 0 },
    { mirostat: '0' },
    { mirostat: '' },
    { mirostat: null },
    { mirostat: [] },
    { normalize: true },
    { normalize: 'true' },
    { ranks: ['text'] },
    { functions: [] },
    { functions: false },
    { unknown: 1, toString: 1, constructor: 1 },
  ])('may have a value that changes nothing: %j', (body) => {
    expect(refuse(body)).not.toThrow();
  });

  it.each<Record<string, unknown>>([
    { mirostat: 2 },
    { mirostat: '2' },
    { normalize: false },
    { ranks: ['title'] },
    { ranks: ['text', 'title'] },
  ])('are refused with another one: %j', (body) => {
    const [field = ''] = Object.keys(body);
    expect(refuse(body)).toThrow(
      expect.objectContaining({
        code: 'unsupported_parameter',
        status: 422,
        message: `'${field}' is not supported: leave it out.`,
      }),
    );
  });

  it('are refused with the name of the field to send instead', () => {
    expect(refuse({ functions: [{}] })).toThrow("'functions' is not supported: send 'tools' instead.");
  });
});
