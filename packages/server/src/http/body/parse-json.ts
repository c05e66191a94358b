const NAME_OF_ONE_ESCAPE = /"\\u([0-9a-f]{4})"(?=\s*:)/gi;

function writtenOut(name: string, hex: string): string {
  const character = String.fromCharCode(Number.parseInt(hex, 16));
  const needsNoEscape = JSON.stringify(character).length === 3;
  return needsNoEscape ? `"${character}"` : name;
}

/**
 * `JSON.parse` with a workaround for a bug in V8 (https://github.com/nodejs/node/issues/63785): once anyone has sent an object with the
 * property `\`, V8 may read other names that consist of a single escape as `\` too. Clients that send ASCII only escape names like `é`.
 * Names that need their escape, such as a line break, are not covered.
 */
export const parseJson = (text: string): unknown =>
  JSON.parse(text.includes('"\\u') ? text.replace(NAME_OF_ONE_ESCAPE, writtenOut) : text);
