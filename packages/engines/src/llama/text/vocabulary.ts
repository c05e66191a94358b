/** A GGUF vocabulary: the exact bytes of every token and the texts of control tokens. */
export interface Vocabulary {
  readonly size: number;
  /** Bytes that the token adds to the text; none for a control token. */
  bytes(token: number): Uint8Array;
  /** The text of a control token, which is never shown. */
  control(token: number): string | undefined;
  /** The text of tokens, control tokens included. */
  text(tokens: readonly number[]): string;
  /** The token as text, for log probabilities. */
  label(token: number): string;
  /** Texts that the tokenizer turns into single control tokens, longest first. */
  readonly controlTexts: readonly string[];
  /** The tokenizer adds a space before every text, so the first generated space must be dropped. */
  readonly addsLeadingSpace: boolean;
}

/** The fields of the GGUF key `tokenizer.ggml` that matter here. */
export interface TokenizerMetadata {
  model: string;
  tokens: readonly string[];
  token_type?: readonly number[];
  add_space_prefix?: boolean;
}

const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const UNUSED = 5;
const BYTE = 6;

const EMPTY = new Uint8Array(0);
const utf8 = new TextEncoder();
const lossy = new TextDecoder();

export function createVocabulary(metadata: TokenizerMetadata): Vocabulary {
  const { tokens, token_type: types = [] } = metadata;
  const bytePair = metadata.model === 'gpt2';
  const decodeNormal = bytePair ? decodeBytePairs : decodeSentencePiece;
  const bytes = (token: number): Uint8Array => {
    const text = tokens[token];
    if (text === undefined) return EMPTY;
    switch (types[token]) {
      case UNKNOWN:
      case CONTROL:
      case UNUSED:
        return EMPTY;
      case USER_DEFINED:
        return utf8.encode(text);
      case BYTE:
        return Uint8Array.of(Number.parseInt(text.slice(3, 5), 16));
      default:
        return decodeNormal(text);
    }
  };
  const isControl = (token: number) => types[token] === CONTROL || types[token] === UNKNOWN;
  return {
    size: tokens.length,
    bytes,
    control: (token) => (isControl(token) ? tokens[token] : undefined),
    text: (ids) => lossy.decode(Buffer.concat(ids.map((id) => (isControl(id) ? utf8.encode(tokens[id]) : bytes(id))))),
    label(token) {
      const own = bytes(token);
      return own.length > 0 ? lossy.decode(own) : (tokens[token] ?? '');
    },
    controlTexts: tokens
      // Without user-defined tokens: the tokenizer always matches those.
      .filter((text, token) => text !== '' && isControl(token))
      .sort((a, b) => b.length - a.length),
    addsLeadingSpace: metadata.model === 'llama' && metadata.add_space_prefix !== false,
  };
}

const decodeSentencePiece = (text: string) => utf8.encode(text.replaceAll('\u2581', ' '));

/** GPT-2 style vocabularies write every byte as one printable character. Maps them back to bytes. */
const BYTE_OF_CHARACTER = (() => {
  const table = new Map<string, number>();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    table.set(String.fromCodePoint(printable ? byte : next++), byte);
  }
  return table;
})();

function decodeBytePairs(text: string): Uint8Array {
  const result: number[] = [];
  for (const character of text) {
    const byte = BYTE_OF_CHARACTER.get(character);
    if (byte === undefined) result.push(...utf8.encode(character));
    else result.push(byte);
  }
  return Uint8Array.from(result);
}
