/** Reads text as it grows. Returns the part that belongs to the arguments. */
export interface JsonReader {
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
