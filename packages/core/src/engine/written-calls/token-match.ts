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
