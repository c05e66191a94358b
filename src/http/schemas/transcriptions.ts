import { type Static, Type } from 'typebox';

export const RESPONSE_FORMATS = ['json', 'text', 'srt', 'vtt', 'verbose_json'] as const;

/** As JSON; a multipart form has the same fields, all as text. */
export const TranscriptionRequest = Type.Object({
  model: Type.String({ minLength: 1, description: 'Slug of an audio model, with an optional pin' }),
  file_id: Type.Optional(Type.String({ minLength: 1, description: 'A file uploaded with purpose `transcription`' })),
  language: Type.Optional(Type.String({ pattern: '^[a-z]{2,3}$', description: 'ISO 639-1; detected if not given' })),
  prompt: Type.Optional(Type.String({ maxLength: 10_000 })),
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  response_format: Type.Optional(Type.Enum([...RESPONSE_FORMATS], { default: 'json' })),
  timestamp_granularities: Type.Optional(Type.Array(Type.Enum(['segment', 'word']))),
  stream: Type.Optional(Type.Boolean()),
});

export type TranscriptionBody = Static<typeof TranscriptionRequest>;

export const TranscriptionResponse = Type.Object(
  {
    text: Type.String(),
    usage: Type.Object({ type: Type.Literal('duration'), seconds: Type.Integer() }),
  },
  {
    description: 'verbose_json adds task, language, duration, segments and words; text, srt and vtt answer plain text',
  },
);
