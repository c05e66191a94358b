const NAME_OF_ONE_ESCAPE = /"\\u([0-9a-f]{4})"(?=\s*:)/gi;

function writtenOut(name: string, hex: string): string {
  const character = String.fromCharCode(Number.parseInt(hex, 16));
  const needsNoEscape = JSON.stringify(character).length === 3;
  return needsNoEscape ? `"${character}"` : name;
}

/**
 * `JSON.parse` without a fault of V8 (https://github.com/nodejs/node/issues/63785): after an object with the name `\`, whoever sent it, a
 * name that is one escape may be read as `\` too. Clients that write ASCII only send the name `é` so. Names that cannot be written
 * without an escape, such as a line break, are left to V8.
 */
export const parseJson = (text: string): unknown =>
  JSON.parse(text.includes('"\\u') ? text.replace(NAME_OF_ONE_ESCAPE, writtenOut) : text);
