/** The parts of a Hugging Face `tokenizer.json` that are read here. */

export interface AddedToken {
  id: number;
  content: string;
  special: boolean;
}

export interface NormalizerPart {
  type: string;
  normalizers?: readonly NormalizerPart[];
  clean_text?: boolean;
  handle_chinese_chars?: boolean;
  /** Null: as `lowercase` says. */
  strip_accents?: boolean | null;
  lowercase?: boolean;
}

export type TemplatePiece =
  | { SpecialToken: { id: string; type_id: number } }
  | { Sequence: { id: 'A' | 'B'; type_id: number } };

export interface PostProcessorPart {
  type: string;
  processors?: readonly PostProcessorPart[];
  single?: readonly TemplatePiece[];
  pair?: readonly TemplatePiece[];
  special_tokens?: Record<string, { ids: readonly number[] }>;
  sep?: readonly [string, number];
  cls?: readonly [string, number];
}

export interface TokenizerFile {
  added_tokens?: readonly AddedToken[];
  normalizer?: NormalizerPart | null;
  pre_tokenizer?: { type: string } | null;
  post_processor?: PostProcessorPart | null;
  decoder?: { type: string } | null;
  padding?: { pad_id?: number } | null;
  model: {
    type?: string;
    vocab: Record<string, number> | readonly (readonly [string, number])[];
    unk_token?: string | null;
    continuing_subword_prefix?: string;
    max_input_chars_per_word?: number;
  };
}
