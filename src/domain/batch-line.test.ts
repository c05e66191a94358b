import { expect, it } from 'vitest';
import { parseWindow } from './batch.ts';
import { parseLine, writeResult } from './batch-line.ts';

const line = (fields: object) =>
  JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/embeddings', body: { model: 'm' }, ...fields });
const parse = (text: string) => parseLine({ number: 7, text }, '/v1/embeddings');

it('reads a request', () => {
  expect(parse(line({})).request).toEqual({ customId: 'a', body: { model: 'm' } });
});

it('names what is wrong with a line, and its number', () => {
  const cases: [string, string, string | null][] = [
    ['{', 'invalid_json_line', null],
    ['[1]', 'invalid_json_line', null],
    ['"x"', 'invalid_json_line', null],
    [line({ custom_id: undefined }), 'missing_custom_id', 'custom_id'],
    [line({ custom_id: 5 }), 'missing_custom_id', 'custom_id'],
    [line({ custom_id: 'x'.repeat(600) }), 'invalid_custom_id', 'custom_id'],
    [line({ method: 'GET' }), 'invalid_method', 'method'],
    [line({ url: '/v1/rerank' }), 'mismatched_url', 'url'],
    [line({ body: 'x' }), 'invalid_body', 'body'],
  ];
  for (const [text, code, param] of cases) expect(parse(text).problem).toMatchObject({ code, param, line: 7 });
  const unread = parseLine({ number: 2, text: undefined, problem: 'too long' }, '/v1/rerank');
  expect(unread.problem).toEqual({ code: 'invalid_json_line', message: 'too long', param: null, line: 2 });
});

it('writes lines that are one line of JSON each', () => {
  const body = Buffer.from('{"object":"list"}');
  const good = writeResult('r1', 'ü"\n', { status: 200, requestId: 'req_1', body }).toString();
  expect(good.indexOf('\n')).toBe(good.length - 1);
  expect(JSON.parse(good)).toEqual({
    id: 'r1',
    custom_id: 'ü"\n',
    response: { status_code: 200, request_id: 'req_1', body: { object: 'list' } },
    error: null,
  });
  const bad = writeResult('r2', null, { problem: { code: 'c', message: 'm' } }).toString();
  expect(JSON.parse(bad)).toEqual({ id: 'r2', custom_id: null, response: null, error: { code: 'c', message: 'm' } });
});

it('takes windows of hours and days up to a week', () => {
  expect(parseWindow('24h')).toBe(86_400_000);
  expect(parseWindow('7d')).toBe(7 * 86_400_000);
  for (const window of ['', '0h', '24', '8d', '169h', '1m', '24H']) expect(() => parseWindow(window)).toThrow(/24h/);
});
