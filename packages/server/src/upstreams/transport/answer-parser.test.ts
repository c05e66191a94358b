import { describe, expect, it } from 'vitest';
import { AnswerParser } from './answer-parser.ts';

/** Parses the pieces as if they came from a connection, and returns what the sink saw. */
function read(pieces: readonly string[], { ends = false } = {}) {
  const seen = { heads: 0, status: 0, headers: {} as Readonly<Record<string, string>>, keepMs: -1, body: '', ends: 0 };
  const parser = new AnswerParser({
    onHead({ status, headers, keepMs }) {
      Object.assign(seen, { heads: seen.heads + 1, status, headers, keepMs });
    },
    onBody(bytes, from, to) {
      seen.body += bytes.toString('utf8', from, to);
    },
    onEnd() {
      seen.ends += 1;
    },
  });
  parser.expect();
  // The buffer still has what was read before.
  const rests = pieces.map((piece) => parser.push(Buffer.from(`${piece}\r\n\r\n0\r\n`), Buffer.byteLength(piece)));
  if (ends) parser.end();
  return { ...seen, hasRest: rests.at(-1) };
}

const splits = (text: string): string[][] => [
  [text],
  [...text],
  ...Array.from({ length: text.length - 1 }, (_, at) => [text.slice(0, at + 1), text.slice(at + 1)]),
];

describe('answer parser', () => {
  it.each([
    ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nx-a:  2 \r\n\r\nhello', undefined],
    [
      'chunks',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\nX-A: 1, 2\r\n\r\n2;x=y\r\nhe\r\n03\r\nllo\r\n0\r\nx-t: 1\r\n\r\n',
      undefined,
    ],
    [
      'an interim answer before it',
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 \r\nx-a: 1, 2\r\ncontent-length: 5\r\nkeep-alive: timeout=3\r\n\r\nhello',
      2_000,
    ],
    [
      'a connection that will close',
      'HTTP/1.1 200\r\nx-a: 1, 2\r\nContent-Length: 5\r\nConnection: Close\r\n\r\nhello',
      0,
    ],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nx-a: 1, 2\r\ncontent-length: 5\r\n\r\nhello', 0],
  ])('reads an answer with %s, wherever it is split', (_name, text, keepMs) => {
    for (const pieces of splits(text)) {
      expect(read(pieces)).toMatchObject({ heads: 1, status: 200, body: 'hello', ends: 1, keepMs, hasRest: false });
      expect(read(pieces).headers['x-a']).toBe('1, 2');
    }
  });

  it('reads an answer that ends with its connection', () => {
    for (const pieces of splits('HTTP/1.1 200 OK\r\n\r\nhello')) {
      expect(read(pieces)).toMatchObject({ body: 'hello', ends: 0, keepMs: 0 });
      expect(read(pieces, { ends: true })).toMatchObject({ body: 'hello', ends: 1 });
    }
    expect(read(['HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell'], { ends: true }).ends).toBe(0);
    expect(read(['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'], { ends: true }).ends).toBe(0);
  });

  it('expects no body for statuses without one', () => {
    for (const head of [
      '204 No Content\r\n',
      '304 Not Modified\r\ncontent-length: 9\r\n',
      '200 OK\r\ncontent-length: 0\r\n',
    ])
      expect(read([`HTTP/1.1 ${head}\r\n`])).toMatchObject({ heads: 1, body: '', ends: 1, hasRest: false });
  });

  it('reports bytes after the end', () => {
    expect(read(['HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nabc'])).toMatchObject({
      body: 'a',
      ends: 1,
      hasRest: true,
    });
    const twice = 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na';
    expect(read([twice, twice])).toMatchObject({ heads: 1, ends: 1, hasRest: true });
  });

  it.each([
    ['other protocols', 'SSH-2.0-OpenSSH\r\n\r\n'],
    ['newer versions', 'HTTP/2 200\r\n\r\n'],
    ['headers without a name', 'HTTP/1.1 200 OK\r\n: 1\r\n\r\n'],
    ['lines without a colon', 'HTTP/1.1 200 OK\r\ncontent-lengt\r\n\r\n'],
    ['names with a space', 'HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n'],
    ['folded lines', 'HTTP/1.1 200 OK\r\nx-a: 1\r\n and: more\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n'],
    ['lengths that are no number', 'HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n'],
    ['a length beside chunks', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n'],
    ['other transfer encodings', 'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n'],
    ['chunks without a size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n'],
    ['chunks longer than their size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabcd\r\n'],
    ['heads that are too long', `HTTP/1.1 200 OK\r\nx-a: ${'x'.repeat(70_000)}`],
    ['lines that are too long', `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;${'x'.repeat(5_000)}`],
  ])('rejects %s', (_name, text) => {
    for (const pieces of text.length > 1_000 ? [[text], text.match(/.{1,1000}/gs) ?? []] : splits(text))
      expect(() => read(pieces)).toThrow(/answer/);
  });
});
