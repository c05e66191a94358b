import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SseReader } from './sse.ts';
import { TextPieces } from './stream.ts';

const parse = (...pieces: (string | Uint8Array)[]): string[] => {
  const reader = new SseReader();
  const text = new TextPieces();
  return [
    ...pieces.flatMap((piece) => reader.push(text.add(Buffer.from(piece)))),
    ...reader.push(text.end()),
    ...reader.end(),
  ];
};

describe('the event stream reader', () => {
  it('returns each event as soon as its empty line arrives', () => {
    const reader = new SseReader();
    expect(reader.push('data: {"a":1}\n\ndata: {"b"')).toEqual(['{"a":1}']);
    expect(reader.push(':2}\n')).toEqual([]);
    expect(reader.push('\n')).toEqual(['{"b":2}']);
  });

  it('goes on after plain events with anything else', () => {
    const reader = new SseReader();
    expect(reader.push('data: a\n\ndata: b\n\n')).toEqual(['a', 'b']);
    expect(reader.push('data: c\ndata: d\n\n: ping\n\n')).toEqual(['c\nd']);
    expect(reader.push('data: e\n\ndata: f')).toEqual(['e']);
    expect(reader.end()).toEqual(['f']);
  });

  it('accepts CRLF, comments, other fields and a missing space', () => {
    expect(parse(': ping\r\n\r\nevent: x\r\nid: 7\r\ndata:one\r\n\r\n: bye\n\ndata: two\n\n')).toEqual(['one', 'two']);
  });

  it('joins the data lines of one event with line feeds', () => {
    expect(parse('data: a\ndata: b\ndata:\n\n')).toEqual(['a\nb\n']);
  });

  it('returns a last event without its empty line', () => {
    expect(parse('data: a\n\ndata: [DONE]')).toEqual(['a', '[DONE]']);
  });

  it("turns llama-server's error field into an error chunk", () => {
    expect(parse('error: {"code":500,"message":"x"}\n\n')).toEqual(['{"error":{"code":500,"message":"x"}}']);
  });

  it.each([
    ['plain events', '', '\n'],
    ['a comment and CRLF', ': hi\r\n', '\r\n'],
  ])('returns the same events however the bytes of %s are split', (_, before, lineEnd) => {
    const events = ['{"text":"grüße 🌳"}', '漢字', 'x'];
    const bytes = Buffer.from(before + events.map((event) => `data: ${event}${lineEnd}${lineEnd}`).join(''));
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 12 }), (cuts) => {
        const edges = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
        const pieces = edges.slice(1).map((end, i) => bytes.subarray(edges[i], end));
        expect(parse(...pieces)).toEqual(events);
      }),
    );
  });

  it('rejects a data line that never ends', () => {
    const reader = new SseReader();
    reader.push('data: ');
    const piece = 'x'.repeat(1024 * 1024);
    expect(() => {
      for (let i = 0; i < 6; i++) reader.push(piece);
    }).toThrow('longer than');
  });

  it('drops an unknown field without keeping it', () => {
    const reader = new SseReader();
    const piece = 'x'.repeat(1024 * 1024);
    for (let i = 0; i < 6; i++) expect(reader.push(piece)).toEqual([]);
    expect(reader.push('\ndata: next\n\n')).toEqual(['next']);
  });
});
