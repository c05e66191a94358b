/** Status line and headers of an HTTP/1 answer. */
export interface AnswerHead {
  readonly status: number;
  /** By lower-case name. Repeated headers are joined by commas. */
  readonly headers: Readonly<Record<string, string>>;
  /** How the body ends. */
  readonly framing: { kind: 'length'; bytes: number } | { kind: 'chunked' } | { kind: 'close' };
  /** How long the connection may be kept for another request. 0: close it. Undefined: the other side does not say. */
  readonly keepMs: number | undefined;
}

/** The bytes are not a valid HTTP answer. */
export class MalformedAnswer extends Error {
  override readonly name = 'MalformedAnswer';
  readonly code = 'ERR_MALFORMED_ANSWER';
}

const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: |$)/;
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const WHOLE_NUMBER = /^\d{1,15}$/;
/** These never have a body, whatever their headers say. */
const WITHOUT_BODY = new Set([204, 304]);

const framingOf = (status: number, headers: AnswerHead['headers']): AnswerHead['framing'] => {
  if (status < 200 || WITHOUT_BODY.has(status)) return { kind: 'length', bytes: 0 };
  const encoding = headers['transfer-encoding'];
  if (encoding !== undefined) {
    // We asked for no other encoding. With an additional length, two readers could see two different answers.
    if (encoding.toLowerCase() !== 'chunked' || headers['content-length'] !== undefined)
      throw new MalformedAnswer(`an answer has the transfer encoding '${encoding}'`);
    return { kind: 'chunked' };
  }
  const length = headers['content-length'];
  if (length === undefined) return { kind: 'close' };
  if (!WHOLE_NUMBER.test(length)) throw new MalformedAnswer(`an answer has the content length '${length}'`);
  return { kind: 'length', bytes: Number(length) };
};

/** We close this much earlier than the other side announces. */
const MARGIN_MS = 1_000;

function keepMsOf(headers: AnswerHead['headers']): number | undefined {
  if (/\bclose\b/i.test(headers.connection ?? '')) return 0;
  const seconds = /\btimeout=(\d+)/i.exec(headers['keep-alive'] ?? '')?.[1];
  return seconds === undefined ? undefined : Math.max(0, Number(seconds) * 1_000 - MARGIN_MS);
}

/** Parses the text before the empty line. */
export function parseHead(text: string): AnswerHead {
  const lines = text.split('\r\n');
  const [, minor, digits] = STATUS_LINE.exec(lines[0] as string) ?? [];
  if (digits === undefined) throw new MalformedAnswer('an answer does not start with an HTTP status');
  const headers: Record<string, string> = Object.create(null);
  for (let index = 1; index < lines.length; index += 1) {
    const line = lines[index] as string;
    const colon = line.indexOf(':');
    const name = line.slice(0, colon).toLowerCase();
    if (colon === -1 || !HEADER_NAME.test(name)) throw new MalformedAnswer('an answer has a header without a name');
    const value = line.slice(colon + 1).trim();
    const earlier = headers[name];
    headers[name] = earlier === undefined ? value : `${earlier}, ${value}`;
  }
  const status = Number(digits);
  const framing = framingOf(status, headers);
  return { status, headers, framing, keepMs: minor === '1' && framing.kind !== 'close' ? keepMsOf(headers) : 0 };
}

/** Engines send the same head many times a second: the last one is remembered. */
export function createHeadParser(): (text: string) => AnswerHead {
  let lastText = '';
  let lastHead: AnswerHead | undefined;
  return (text) => {
    if (lastHead === undefined || text !== lastText) {
      lastHead = parseHead(text);
      lastText = text;
    }
    return lastHead;
  };
}
