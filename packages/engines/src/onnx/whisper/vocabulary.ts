/** The byte-level BPE vocabulary of Whisper with its special tokens, read from `tokenizer.json`. */

export interface TokenizerFile {
  model: { vocab: Record<string, number>; merges: readonly (string | readonly [string, string])[] };
  added_tokens: readonly { id: number; content: string }[];
}

export interface Vocabulary {
  readonly size: number;
  readonly endOfText: number;
  readonly startOfTranscript: number;
  readonly startOfPrevious: number;
  readonly noSpeech: number;
  readonly noTimestamps: number;
  /** Token of 0.00 s; each later token is 0.02 s further on. */
  readonly timestampBegin: number;
  readonly tasks: Readonly<Record<'transcribe' | 'translate', number>>;
  /** ISO 639-1 code (a few have three letters) → token. */
  readonly languages: ReadonlyMap<string, number>;
  encode(text: string): number[];
  /** Bytes of the text tokens; special tokens and timestamps have none. A character may span two tokens. */
  bytes(tokens: readonly number[]): Uint8Array;
  decode(tokens: readonly number[]): string;
}

const WORDS = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

export function createVocabulary(file: TokenizerFile): Vocabulary {
  const { vocab } = file.model;
  const special = new Map(file.added_tokens.map(({ content, id }) => [content, id]));
  const required = (...names: readonly string[]): number => {
    const id = names.map((name) => special.get(name)).find((found) => found !== undefined);
    if (id === undefined) throw new Error(`tokenizer.json has no ${names.join(' or ')}: it is not of a Whisper model`);
    return id;
  };
  const { encodeByte, decodeCharacter } = byteCharacters();
  const ranks = new Map(
    file.model.merges.map((merge, rank) => [typeof merge === 'string' ? merge : merge.join(' '), rank]),
  );
  const pieces: string[] = [];
  for (const [piece, id] of Object.entries(vocab)) pieces[id] = piece;

  const endOfText = required('<|endoftext|>');
  const transcribe = required('<|transcribe|>');
  const translate = required('<|translate|>');
  const startOfTranscript = required('<|startoftranscript|>');
  const noTimestamps = required('<|notimestamps|>');
  const languages = new Map(
    [...special]
      .filter(([, id]) => id > startOfTranscript && id < Math.min(transcribe, translate))
      .map(([content, id]) => [content.slice(2, -2), id]),
  );
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();

  const encodeWord = (word: string): number[] => {
    const symbols = Array.from(encoder.encode(word), encodeByte);
    while (symbols.length > 1) {
      let best = Number.POSITIVE_INFINITY;
      let at = -1;
      for (let i = 0; i + 1 < symbols.length; i++) {
        const rank = ranks.get(`${symbols[i]} ${symbols[i + 1]}`) ?? Number.POSITIVE_INFINITY;
        if (rank < best) {
          best = rank;
          at = i;
        }
      }
      if (at < 0) break;
      symbols.splice(at, 2, `${symbols[at]}${symbols[at + 1]}`);
    }
    return symbols.flatMap((symbol) => vocab[symbol] ?? []);
  };

  const bytes = (tokens: readonly number[]) =>
    Uint8Array.from(
      tokens.flatMap((token) => (token < endOfText ? Array.from(pieces[token] ?? '', decodeCharacter) : [])),
    );

  return {
    size: Math.max(...special.values()) + 1,
    endOfText,
    startOfTranscript,
    startOfPrevious: required('<|startofprev|>'),
    noSpeech: required('<|nospeech|>', '<|nocaptions|>'),
    noTimestamps,
    timestampBegin: noTimestamps + 1,
    tasks: { transcribe, translate },
    languages,
    encode: (text) => (text.match(WORDS) ?? []).flatMap(encodeWord),
    bytes,
    decode: (tokens) => decoder.decode(bytes(tokens)),
  };
}

/** GPT-2 writes every byte as one printable character: the printable ones as themselves, the others from U+0100 on. */
function byteCharacters() {
  const printable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  const characters: string[] = [];
  const byByte = new Map<string, number>();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const character = String.fromCodePoint(printable(byte) ? byte : next++);
    characters.push(character);
    byByte.set(character, byte);
  }
  return {
    encodeByte: (byte: number) => characters[byte] ?? '',
    decodeCharacter: (character: string) => byByte.get(character) ?? 0x3f,
  };
}
