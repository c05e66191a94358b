import type { PostProcessorPart, TemplatePiece, TokenizerFile } from './file.ts';

export interface SpecialTokens {
  before: readonly number[];
  after: readonly number[];
}

/** Text to ids of the vocabulary. Special tokens written in the text are plain text; only those of `around` are real. */
export type Encode = (text: string, around?: SpecialTokens) => Int32Array;

/** Special tokens around one text, or around and between two. */
export interface Template {
  single: SpecialTokens;
  pair: {
    before: readonly number[];
    between: readonly number[];
    after: readonly number[];
    /** Token type of the second text and of what follows it. */
    secondType: number;
  };
}

const BARE: Template = {
  single: { before: [], after: [] },
  pair: { before: [], between: [], after: [], secondType: 0 },
};

export function readTemplate(file: TokenizerFile): Template {
  return file.post_processor ? fromPart(file.post_processor) : BARE;
}

function fromPart(part: PostProcessorPart): Template {
  switch (part.type) {
    case 'TemplateProcessing':
      return fromPieces(part);
    case 'BertProcessing':
    case 'RobertaProcessing': {
      const cls = [part.cls?.[1] ?? 0];
      const sep = [part.sep?.[1] ?? 0];
      const roberta = part.type === 'RobertaProcessing';
      return {
        single: { before: cls, after: sep },
        pair: { before: cls, between: roberta ? [...sep, ...sep] : sep, after: sep, secondType: roberta ? 0 : 1 },
      };
    }
    case 'Sequence':
      return part.processors?.map(fromPart).find((template) => template !== BARE) ?? BARE;
    default:
      return BARE;
  }
}

function fromPieces(part: PostProcessorPart): Template {
  const idsOf = (piece: TemplatePiece) =>
    'SpecialToken' in piece ? (part.special_tokens?.[piece.SpecialToken.id]?.ids ?? []) : [];
  const single = part.single ?? [];
  const pair = part.pair ?? [];
  const at = (pieces: readonly TemplatePiece[], name: 'A' | 'B') =>
    pieces.findIndex((piece) => 'Sequence' in piece && piece.Sequence.id === name);
  const only = at(single, 'A');
  const first = at(pair, 'A');
  const second = at(pair, 'B');
  const secondPiece = pair[second];
  return {
    single: { before: single.slice(0, only).flatMap(idsOf), after: single.slice(only + 1).flatMap(idsOf) },
    pair: {
      before: pair.slice(0, first).flatMap(idsOf),
      between: pair.slice(first + 1, second).flatMap(idsOf),
      after: pair.slice(second + 1).flatMap(idsOf),
      secondType: secondPiece && 'Sequence' in secondPiece ? secondPiece.Sequence.type_id : 0,
    },
  };
}
