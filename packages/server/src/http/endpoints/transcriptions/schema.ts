import { type Static, Type } from 'typebox';
import { patternInWords } from '../../../validation/expectation.ts';
import { listOf, shortText } from '../../body/bounded.ts';
import type { UnkeptFields } from '../../body/unkept.ts';
import { StoppedBy } from '../../generation/schema.ts';

const RESPONSE_FORMATS = ['json', 'text', 'srt', 'vtt', 'verbose_json'] as const;

/** The JSON body; a multipart form has the same fields as text. */
const requestFields = {
  model: shortText({ minLength: 1, description: 'Slug of an audio model, with an optional pin' }),
  file_id: Type.Optional(shortText({ minLength: 1, description: 'A file uploaded with purpose `transcription`' })),
  language: Type.Optional(
    Type.String({
      ...patternInWords('^[a-z]{2,3}$', 'a language code such as sw or en'),
      description: 'ISO 639-1; detected if not given',
    }),
  ),
  prompt: Type.Optional(
    Type.String({ maxLength: 10_000, description: 'Names and words to expect, or what was said before' }),
  ),
  temperature: Type.Optional(
    Type.Number({
      minimum: 0,
      maximum: 1,
      description: '0 takes the likeliest text; text that repeats itself is decoded again with a higher temperature',
    }),
  ),
  response_format: Type.Optional(
    Type.Enum([...RESPONSE_FORMATS], { default: 'json', description: 'A stream can be of json and text only' }),
  ),
  timestamp_granularities: Type.Optional(
    listOf(Type.Enum(['segment', 'word']), {
      maxItems: 16,
      description: 'For verbose_json only; `word` adds the times of words',
    }),
  ),
  stream: Type.Optional(Type.Boolean({ description: 'Send the text as server-sent events while it is transcribed' })),
};

/** Rules between fields that the service checks, in the words of a schema. */
const formats = (...names: string[]) => ({ properties: { response_format: { enum: names } } });
const betweenFields = [
  {
    anyOf: [
      { not: { required: ['timestamp_granularities'] } },
      { required: ['response_format'], ...formats('verbose_json') },
    ],
  },
  { anyOf: [{ properties: { stream: { const: false } } }, formats('json', 'text')] },
];

export const TranscriptionRequest = Type.Object(requestFields, {
  documented: { required: ['model', 'file_id'], allOf: betweenFields },
});

const { timestamp_granularities: granularities, ...fields } = TranscriptionRequest.properties;

const { model, file_id, prompt, temperature, response_format } = requestFields;
/** Translations are always into English. */
export const TranslationRequest = Type.Object(
  { model, file_id, prompt, temperature, response_format },
  { documented: { required: ['model', 'file_id'] } },
);

/** The form, for the document; it is validated as the JSON above. */
export const TranscriptionFormFields = Type.Object({
  file: Type.Optional(
    Type.String({ format: 'binary', description: 'The audio, with a file name; either this or `file_id`' }),
  ),
  ...fields,
  'timestamp_granularities[]': granularities,
});

export const TranslationFormFields = Type.Object({
  file: TranscriptionFormFields.properties.file,
  ...TranslationRequest.properties,
});

/** Of the APIs of OpenAI, vLLM, whisper.cpp and others. Audio is always cut at silence. */
export const UNKEPT_IN_TRANSCRIPTIONS: UnkeptFields = {
  beam_size: [],
  best_of: [1],
  chunking_strategy: ['auto'],
  diarize: [false],
  frequency_penalty: [0],
  hotwords: [],
  include: [],
  initial_prompt: { instead: 'prompt' },
  keywords: [],
  known_speaker_names: [],
  known_speaker_references: [],
  languages: [],
  length_penalty: [1],
  max_completion_tokens: [],
  max_tokens: [],
  min_p: [0],
  n: [1],
  presence_penalty: [0],
  repetition_penalty: [1],
  task: ['transcribe'],
  to_language: [],
  top_k: [0, -1],
  top_p: [1],
  translate: [false],
  use_beam_search: [false],
};

export const UNKEPT_IN_TRANSLATIONS: UnkeptFields = {
  ...UNKEPT_IN_TRANSCRIPTIONS,
  language: [],
  stream: [false],
  task: ['translate'],
  timestamp_granularities: ['segment'],
  to_language: ['en'],
  translate: [true],
};

export type TranscriptionBody = Static<typeof TranscriptionRequest>;

export const TranscriptionResponse = Type.Object(
  {
    text: Type.String(),
    stopped_by: StoppedBy,
    usage: Type.Object({ type: Type.Literal('duration'), seconds: Type.Integer() }),
  },
  {
    description:
      'verbose_json adds task, language, duration, segments and words; text, srt and vtt answer plain text, with the header `x-stopped-by` instead of `stopped_by`',
  },
);
