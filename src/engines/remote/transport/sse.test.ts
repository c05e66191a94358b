import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createSseParser } from './sse.ts';

const parse = (...pieces: (string | Uint8Array)[]): string[] => {
  const parser = createSseParser();
  return [...pieces.flatMap((piece) => parser.push(Buffer.from(piece))), ...parser.end()];
};

describe('the event stream parser', () => {
  it('gives each event as soon as its empty line is there', () => {
    const parser = createSseParser();
    expect(parser.push(Buffer.from('data: {"a":1}\n\ndata: {"b"'))).toEqual(['{"a":1}']);
    expect(parser.push(Buffer.from(':2}\n'))).toEqual([]);
    expect(parser.push(Buffer.from('\n'))).toEqual(['{"b":2}']);
  });

  it('takes CRLF, comments, other fields and a missing space', () => {
    expect(parse(': ping\r\n\r\nevent: x\r\nid: 7\r\ndata:one\r\n\r\n: bye\n\ndata: two\n\n')).toEqual(['one', 'two']);
  });

  it('joins the data lines of one event with line feeds', () => {
    expect(parse('data: a\ndata: b\ndata:\n\n')).toEqual(['a\nb\n']);
  });

  it('gives a last event that the end cut off', () => {
    expect(parse('data: a\n\ndata: [DONE]')).toEqual(['a', '[DONE]']);
  });

  it("turns llama-server's error field into an error chunk", () => {
    expect(parse('error: {"code":500,"message":"x"}\n\n')).toEqual(['{"error":{"code":500,"message":"x"}}']);
  });

  it('gives the same events however the bytes are cut', () => {
    const events = ['{"text":"grüße 🌳"}', '漢字', 'x'];
    const bytes = Buffer.from(`: hi\r\n${events.map((event) => `data: ${event}\r\n\r\n`).join('')}`);
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 12 }), (cuts) => {
        const edges = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
        const pieces = edges.slice(1).map((end, i) => bytes.subarray(edges[i], end));
        expect(parse(...pieces)).toEqual(events);
      }),
    );
  });

  it('refuses a line that never ends', () => {
    const parser = createSseParser();
    const piece = Buffer.alloc(1024 * 1024, 'x');
    expect(() => {
      for (let i = 0; i < 6; i++) parser.push(piece);
    }).toThrow('longer than');
  });
});
