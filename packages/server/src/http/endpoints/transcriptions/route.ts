import { errors } from '@baobab/core/errors/errors.ts';
import type { AudioSource } from '@baobab/core/ports/file-readers.ts';
import multipart from '@fastify/multipart';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { createAccountAmounts } from '../../../admission/account-amounts.ts';
import type { TranscriptionCommand, TranscriptionsService } from '../../../inference/transcriptions.ts';
import type { FilesService } from '../../../services/files/files.ts';
import { inferenceErrors } from '../../answer/error-answer.ts';
import { streamedAnswer } from '../../answer/event-stream.ts';
import { refuseUnkept } from '../../body/unkept.ts';
import { stoppedByToWire } from '../../generation/choices.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { principalOf } from '../../request/request-record.ts';
import { durationUsage, transcriptAnswer } from './answer.ts';
import { checkedBody, readTranscriptionForm } from './request.ts';
import {
  type TranscriptionBody,
  TranscriptionFormFields,
  TranscriptionRequest,
  TranscriptionResponse,
  TranslationFormFields,
  TranslationRequest,
  UNKEPT_IN_TRANSCRIPTIONS,
  UNKEPT_IN_TRANSLATIONS,
} from './schema.ts';

export interface TranscriptionRouteOptions {
  transcriptions: TranscriptionsService<AudioSource>;
  files: FilesService;
  temporaryDirectory: string;
  maxInlineAudioBytes: number;
}

const TRANSCRIPTIONS = {
  task: 'transcribe',
  path: '/audio/transcriptions',
  operation: 'transcriptions.create',
  request: TranscriptionRequest,
  form: TranscriptionFormFields,
  unkept: UNKEPT_IN_TRANSCRIPTIONS,
  answers: ['text/plain', 'text/vtt', 'text/event-stream'],
  summary: 'Transcribe audio',
} as const;

const TRANSLATIONS = {
  task: 'translate',
  path: '/audio/translations',
  operation: 'translations.create',
  request: TranslationRequest,
  form: TranslationFormFields,
  unkept: UNKEPT_IN_TRANSLATIONS,
  answers: ['text/plain', 'text/vtt'],
  summary: 'Translate audio into English',
} as const;

type Endpoint = typeof TRANSCRIPTIONS | typeof TRANSLATIONS;

/** Files sent inline by an account are on the disk until they are transcribed. Together they have this many times the size of the largest one. */
const LARGEST_AT_ONCE = 16;

function check(body: TranscriptionBody, { unkept }: Endpoint): void {
  refuseUnkept(body, unkept);
  const { stream, response_format: format = 'json', timestamp_granularities: granularities = [] } = body;
  if (granularities.length > 0 && format !== 'verbose_json') {
    throw errors.invalidParameter(
      'timestamp_granularities',
      "'timestamp_granularities' needs 'response_format' to be verbose_json.",
    );
  }
  if (stream && format !== 'json' && format !== 'text') {
    throw errors.unsupportedParameter(
      'response_format',
      `A stream cannot be of the format '${format}'; use json or text.`,
    );
  }
}

export const transcriptionRoutes: FastifyPluginAsyncTypebox<TranscriptionRouteOptions> = async (server, options) => {
  const { transcriptions, files, temporaryDirectory, maxInlineAudioBytes } = options;
  const received = createAccountAmounts(LARGEST_AT_ONCE * maxInlineAudioBytes);
  await server.register(multipart);

  async function answer(
    { task, path }: Endpoint,
    request: FastifyRequest,
    reply: FastifyReply,
    body: TranscriptionBody,
    sent: Pick<TranscriptionCommand<AudioSource>, 'source' | 'bytes'>,
  ) {
    const command: TranscriptionCommand<AudioSource> = {
      model: body.model,
      ...sent,
      options: {
        language: body.language,
        prompt: body.prompt,
        temperature: body.temperature,
        wordTimestamps: body.timestamp_granularities?.includes('word'),
        task,
      },
    };
    const call = inferenceCall(request, reply, `/v1${path}`);
    if (!body.stream) {
      const done = await transcriptions.transcribe(call, command);
      const { type, body: text } = transcriptAnswer(done, body, task);
      // Texts and subtitles have no field for it.
      if (done.stoppedBy !== undefined) reply.header('x-stopped-by', done.stoppedBy);
      return reply.type(type).send(text);
    }
    const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
    return streamedAnswer(request, reply, async (events) => {
      const done = await transcriptions.transcribe(call, command, ({ delta }) =>
        events.write(event({ type: 'transcript.text.delta', delta })),
      );
      const usage = durationUsage(done);
      const last = { type: 'transcript.text.done', text: done.text, ...stoppedByToWire(done), usage };
      return `${event(last)}data: [DONE]\n\n`;
    });
  }

  /** The file is attached while it is read, so that it cannot be deleted. */
  async function fromFile(endpoint: Endpoint, request: FastifyRequest, reply: FastifyReply, body: TranscriptionBody) {
    if (body.file_id === undefined) throw errors.missingParameter('file');
    const file = await files.get(principalOf(request).account.id, body.file_id, 'file_id');
    if (file.purpose !== 'transcription') {
      throw errors.invalidParameter(
        'file_id',
        `The file '${file.id}' has the purpose '${file.purpose}'; upload it with 'transcription'.`,
      );
    }
    let isAttached = false;
    try {
      return await answer(endpoint, request, reply, body, {
        async source() {
          isAttached = true;
          await files.attach(file, request.id);
          return { stream: await files.open(file) };
        },
        bytes: file.bytes,
      });
    } finally {
      if (isAttached) await files.detach(request.id);
    }
  }

  for (const endpoint of [TRANSCRIPTIONS, TRANSLATIONS]) {
    const { path: address, operation, summary, request: schema, form: formFields, answers } = endpoint;
    server.post(
      address,
      {
        config: {
          operation,
          fieldNames: { wordTimestamps: 'timestamp_granularities' },
          documented: {
            body: { 'multipart/form-data': formFields, 'application/json': schema },
            answers: [...answers],
          },
        },
        schema: {
          summary,
          description: 'A multipart form with `file`, or JSON with the `file_id` of an uploaded file.',
          tags: ['Inference'],
          response: { 200: TranscriptionResponse, ...inferenceErrors },
        },
      },
      async (request, reply) => {
        if (!request.isMultipart()) {
          const body = checkedBody(request.body, schema);
          check(body, endpoint);
          return fromFile(endpoint, request, reply, body);
        }
        await using form = await readTranscriptionForm(request, {
          schema,
          directory: temporaryDirectory,
          maxBytes: maxInlineAudioBytes,
          received,
        });
        if (await server.replayed(request, reply, { hash: form.hash, model: form.body.model })) return reply;
        check(form.body, endpoint);
        const { path, bytes } = form;
        if (path === undefined) return await fromFile(endpoint, request, reply, form.body);
        return await answer(endpoint, request, reply, form.body, { source: async () => ({ path }), bytes });
      },
    );
  }
};
