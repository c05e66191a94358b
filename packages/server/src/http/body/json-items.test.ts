import { describe, expect, it } from 'vitest';
import { readJsonItems } from './json-items.ts';

const OPTIONS = { list: 'requests', member: 'params', maxItemBytes: 1_000, maxItems: 5 };

async function* inChunks(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

interface Read {
  value: unknown;
  member: string | undefined;
}

async function read(text: string, size = text.length + 1): Promise<Read[]> {
  const items: Read[] = [];
  for await (const { value, bytes, member } of readJsonItems(inChunks(text, size), OPTIONS)) {
    items.push({ value, member: member && bytes.subarray(member.start, member.end).toString() });
  }
  return items;
}

/** The result is the same however the text is cut. */
async function readInAllSizes(text: string): Promise<Read[]> {
  const whole = await read(text);
  for (const size of [1, 2, 3, 7]) expect(await read(text, size)).toEqual(whole);
  return whole;
}

describe('readJsonItems', () => {
  it('gives each item and where its member is', async () => {
    const text = '{"requests":[{"id":"ü","params":{"x":[1,{"params":2}]}},{"params": "a\\"b,]}" ,"id":"params"}]}';
    expect(await readInAllSizes(text)).toEqual([
      { value: { id: 'ü', params: { x: [1, { params: 2 }] } }, member: '{"x":[1,{"params":2}]}' },
      { value: { params: 'a"b,]}', id: 'params' }, member: ' "a\\"b,]}" ' },
    ]);
  });

  it('skips other fields, and accepts items of any type and white space everywhere', async () => {
    const text =
      ' { "x" : {"requests":[9]} , "requests" : [ {\n"params":\n{}} , 5 , "a,]" , [1,2], null ] , "y":"]" }\n';
    expect((await readInAllSizes(text)).map(({ value }) => value)).toEqual([{ params: {} }, 5, 'a,]', [1, 2], null]);
  });

  it('does not know the place of a member whose name has escapes', async () => {
    expect(await readInAllSizes('{"requests":[{"par\\u0061ms":1}]}')).toEqual([
      { value: { params: 1 }, member: undefined },
    ]);
  });

  it.each([
    ['', 'it is empty'],
    ['[]', 'must be a JSON object'],
    ['5', 'must be a JSON object'],
    ['{}', "The parameter 'requests' is required."],
    ['{"requests":[]}', 'a list with at least one item'],
    ['{"requests":{"a":1}}', 'a list with at least one item'],
    ['{"requests":[1],"requests":[2]}', 'given once'],
    ['{"requests":[{"a":tru}]}', "'requests[0]' is not valid JSON: Unexpected token"],
    ['{"requests":[1,{"a":1 2}]}', "'requests[1]' is not valid JSON"],
    ['{"requests":[1,]}', "outside of the items of 'requests'"],
    ['{"requests":[1]]}', "outside of the items of 'requests'"],
    ['{"requests":[1]}x', "outside of the items of 'requests'"],
    ['{"requests" [1]}', "outside of the items of 'requests'"],
    ['}{', 'not valid JSON'],
    ['{"requests":[{"a":1}', 'Unexpected end of JSON input'],
    ['{"requests":["a', 'Unexpected end of JSON input'],
    ['{"requests":[1,2,3,4,5,6]}', "'requests' has more than 5 items."],
    [`{"requests":[1,"${'x'.repeat(1_000)}"]}`, "'requests[1]' is longer than 1000 bytes."],
    [`{"a":"${'x'.repeat(300_000)}","requests":[1]}`, 'bytes outside of the items'],
    [`{"requests":[{"a":${'['.repeat(200)}${']'.repeat(200)}}]}`, 'nested deeper than 128 levels'],
  ])('refuses %.60s', async (text, message) => {
    for (const size of [text.length + 1, 3]) await expect(read(text, size)).rejects.toThrow(message);
  });

  it('agrees with JSON.parse about a text that is cut anywhere', async () => {
    const text = '{"requests":[{"a":"\\\\\\"","params":[{"b":null}]},-1.5e3],"more":{"c":[true]}}';
    const { requests } = JSON.parse(text) as { requests: unknown[] };
    for (let size = 1; size <= text.length; size += 1) {
      expect((await read(text, size)).map(({ value }) => value)).toEqual(requests);
    }
    for (let end = 1; end < text.length; end += 1) await expect(read(text.slice(0, end))).rejects.toThrow();
  });
});
