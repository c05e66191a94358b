export interface WholeCall {
  name: string;
  /** JSON text of an object. */
  arguments: string;
}

/** `open`: more text may make it a call. `no`: nothing can. A call: it is one, if the answer ends here. */
export type WholeCallMatch = 'open' | 'no' | WholeCall;

const FENCE = '```';

/**
 * Recognises an answer that is nothing but a call, as JSON `{"name", "arguments"}`, bare or in a code fence. Some models write calls
 * like that although their template teaches them another way. Qwen2.5-Coder copies the double braces of its template: `{{"name": …}}`.
 * The result is called with the whole text each time it has grown.
 */
export function createWholeCall(names: readonly string[]): (text: string) => WholeCallMatch {
  const reader = createJsonReader();
  let head: Head | undefined;
  let read = 0;
  let written = '';
  let ended = false;

  return (text) => {
    if (head === undefined) {
      const found = matchHead(text, names);
      if (typeof found === 'string') return found;
      head = found;
      read = found.end;
    }
    if (!ended) {
      const { json, done } = reader.read(text.slice(read));
      read += json.length;
      written += json;
      ended = done;
      if (!done) return 'open';
    }
    const rest = text.slice(read);
    const end = matchTokens(rest, [...(head.doubled ? ['}', '}'] : ['}']), ...(head.fenced ? [FENCE] : [])]);
    if (typeof end === 'string') return end;
    const json = head.doubled && /^\{\s*\{/.test(written) ? written.slice(1, -1) : written;
    if (rest.slice(end).trim() !== '' || !isObjectText(json)) return 'no';
    return { name: head.name, arguments: json };
  };
}

interface Head {
  name: string;
  fenced: boolean;
  /** In double braces. */
  doubled: boolean;
  /** Where the arguments begin. */
  end: number;
}

/** Everything before the arguments. */
function matchHead(text: string, names: readonly string[]): Head | 'open' | 'no' {
  const start = matchFence(text);
  if (typeof start === 'string') return start;
  let open = false;
  for (const name of names) {
    const tokens = ['{', '"name"', ':', JSON.stringify(name), ',', '"arguments"', ':', '{'];
    for (const doubled of [false, true]) {
      const end = matchTokens(text.slice(start.end), doubled ? ['{', ...tokens] : tokens);
      if (end === 'open') open = true;
      else if (end !== 'no') return { name, fenced: start.fenced, doubled, end: start.end + end - 1 };
    }
  }
  return open ? 'open' : 'no';
}

/** White space and the opening of a code fence, with or without a language. */
function matchFence(text: string): { fenced: boolean; end: number } | 'open' | 'no' {
  const content = text.trimStart();
  const at = text.length - content.length;
  if (content === '' || (FENCE.startsWith(content) && content !== FENCE)) return 'open';
  if (!content.startsWith(FENCE)) return content.startsWith('{') ? { fenced: false, end: at } : 'no';
  const [lead = ''] = /^```[\w-]*\s*/.exec(content) ?? [];
  return content.length === lead.length ? 'open' : { fenced: true, end: at + lead.length };
}

function isObjectText(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** Reads text as it grows. Returns the part that belongs to the arguments. */
interface JsonReader {
  read(text: string): { json: string; done: boolean };
}

/** Arguments that are one JSON object: they end where it ends. */
export function createJsonReader(): JsonReader {
  let depth = 0;
  let inString = false;
  let escaped = false;
  const findEnd = (text: string): number => {
    for (let at = 0; at < text.length; at++) {
      const character = text[at];
      if (escaped) escaped = false;
      else if (inString && character === '\\') escaped = true;
      else if (character === '"') inString = !inString;
      else if (inString) continue;
      else if (character === '{' || character === '[') depth++;
      else if ((character === '}' || character === ']') && --depth === 0) return at + 1;
    }
    return -1;
  };
  return {
    read(text) {
      const end = findEnd(text);
      return end === -1 ? { json: text, done: false } : { json: text.slice(0, end), done: true };
    },
  };
}

/** Where the last of the tokens ends in a text that begins with them, with or without white space between them. */
export function matchTokens(text: string, tokens: readonly string[]): number | 'open' | 'no' {
  let at = 0;
  for (const token of tokens) {
    while (/\s/.test(text[at] ?? '')) at++;
    const found = text.slice(at, at + token.length);
    if (found !== token) return at + found.length === text.length && token.startsWith(found) ? 'open' : 'no';
    at += token.length;
  }
  return at;
}
