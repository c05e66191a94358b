import { expect, it } from 'vitest';
import { lineFormat } from './line-format.ts';

const line = (fields: object) =>
  JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/embeddings', body: { model: 'm' }, ...fields });
const parse = (text: string) => lineFormat.parse({ number: 7, bytes: Buffer.from(text) }, '/v1/embeddings');

it('reads a request', async () => {
  expect((await parse(line({}))).request).toEqual({ customId: 'a', body: { model: 'm' } });
});

it('reports the first error of a line and its number', async () => {
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
  for (const [text, code, param] of cases) {
    expect((await parse(text)).problem).toMatchObject({ code, param, line: 7 });
  }
  const unread = await lineFormat.parse({ number: 2, bytes: undefined, problem: 'too long' }, '/v1/rerank');
  expect(unread.problem).toEqual({ code: 'invalid_json_line', message: 'too long', param: null, line: 2 });
});

it('refuses what a body may not have either: deep nesting and too many members', async () => {
  const deep = line({ body: JSON.parse(`${'{"a":'.repeat(200)}1${'}'.repeat(200)}`) });
  const large = (body: string) => `{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":${body}}`;
  const deepAndLarge = large(`{"pad":"${' '.repeat(300_000)}","deep":${'['.repeat(5_000)}${']'.repeat(5_000)}}`);
  const members = Array.from({ length: 700_000 }, (_, index) => `"${index}":1`).join(',');
  for (const [text, detail] of [
    [deep, 'nested deeper than 128 levels'],
    [deepAndLarge, 'nested deeper than 128 levels'],
    [large(`{${members}}`), 'more than'],
  ] as const) {
    expect((await parse(text)).problem).toEqual({
      code: 'invalid_json_line',
      message: expect.stringMatching(new RegExp(`^This line is not valid JSON: .*${detail}`)),
      param: null,
      line: 7,
    });
  }
});

it('lets the event loop turn while it parses a large line', async () => {
  const inputs = Array.from({ length: 1_300 }, (_, index) => Array.from({ length: 1_000 }, () => 10_000 + index));
  let turns = 0;
  const count = () => {
    turns += 1;
    timer = setImmediate(count);
  };
  let timer = setImmediate(count);
  const { request } = await parse(line({ body: { model: 'm', input: inputs } }));
  clearImmediate(timer);
  expect(request?.body).toMatchObject({ input: { length: 1_300 } });
  expect(turns).toBeGreaterThan(3);
});

it('writes each result as one line of JSON', () => {
  const body = Buffer.from('{"object":"list"}');
  const good = lineFormat
    .write({ id: 'r1', customId: 'ü"\n', result: { status: 200, requestId: 'req_1', body } })
    .toString();
  expect(good.indexOf('\n')).toBe(good.length - 1);
  expect(JSON.parse(good)).toEqual({
    id: 'r1',
    custom_id: 'ü"\n',
    response: { status_code: 200, request_id: 'req_1', body: { object: 'list' } },
    error: null,
  });
  const bad = lineFormat
    .write({ id: 'r2', customId: null, result: { problem: { code: 'c', message: 'm' } } })
    .toString();
  expect(JSON.parse(bad)).toEqual({ id: 'r2', custom_id: null, response: null, error: { code: 'c', message: 'm' } });
});
