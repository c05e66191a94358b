import { createJsonReader } from './json-reader.ts';
import { matchTokens } from './token-match.ts';

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
 * like that although their template teaches them another way. The result is called with the whole text each time it has grown.
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
    const end = matchTokens(rest, head.fenced ? ['}', FENCE] : ['}']);
    if (typeof end === 'string') return end;
    if (rest.slice(end).trim() !== '' || !isObjectText(written)) return 'no';
    return { name: head.name, arguments: written };
  };
}

interface Head {
  name: string;
  fenced: boolean;
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
    const end = matchTokens(text.slice(start.end), tokens);
    if (end === 'open') open = true;
    else if (end !== 'no') return { name, fenced: start.fenced, end: start.end + end - 1 };
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
