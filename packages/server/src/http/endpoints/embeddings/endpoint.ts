import { createTimeSlice } from '@baobab/core/runtime/time-slices.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import type { InferenceCall } from '../../../inference/call.ts';
import type { EmbeddingCommand, EmbeddingsService } from '../../../inference/embeddings.ts';
import { inferenceErrors } from '../../answer/error-answer.ts';
import { sendBody } from '../../answer/event-stream.ts';
import type { FieldNames } from '../../answer/field-names.ts';
import { TRUNCATION_NAMES, truncationFrom } from '../../body/truncation.ts';
import { refuseUnkept } from '../../body/unkept.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { MAX_FLOAT_BYTES, writeFloats } from './float-text.ts';
import { EmbeddingRequest, EmbeddingResponse, UNKEPT_IN_EMBEDDINGS } from './schema.ts';

type EmbeddingBody = Static<typeof EmbeddingRequest>;
type Input = EmbeddingBody['input'];
type Item = Exclude<Input, string>[number];

const MANY_INPUTS: FieldNames = { ...TRUNCATION_NAMES, inputs: 'input' };
const ONE_INPUT: FieldNames = { ...MANY_INPUTS, 'inputs.*': 'input' };

const isOne = (input: Input): input is string | number[] => typeof input === 'string' || typeof input[0] === 'number';

/** The wire takes one text, many texts or images, one list of token ids or many; the service always takes many. */
function inputsOf(input: Input): EmbeddingCommand['inputs'] {
  return isOne(input) ? [input] : (input as Exclude<Item, number>[]).map(inputOf);
}

function inputOf(item: Exclude<Item, number>, index: number): EmbeddingCommand['inputs'][number] {
  if (typeof item === 'string' || Array.isArray(item)) return item;
  if ('text' in item) return item.text;
  const source = item.image.startsWith('file_') ? { fileId: item.image } : { url: item.image };
  return { source, field: ['inputs', index, 'image'] };
}

function commandOf(body: EmbeddingBody): EmbeddingCommand {
  refuseUnkept(body, UNKEPT_IN_EMBEDDINGS);
  const { model, input, dimensions } = body;
  return {
    model,
    inputs: inputsOf(input),
    dimensions: dimensions ?? undefined,
    truncation: truncationFrom(body),
  };
}

/** What the route and the lines of batches share. */
export const embeddingEndpoint = {
  schema: EmbeddingRequest,
  fieldNames: (body: unknown): FieldNames =>
    isOne((body as Partial<EmbeddingBody> | undefined)?.input ?? []) ? ONE_INPUT : MANY_INPUTS,

  /** The JSON of the answer: a string if it is short, else bytes. */
  async answer(embeddings: EmbeddingsService, call: InferenceCall, body: EmbeddingBody): Promise<string | Buffer> {
    const { model, encoding_format: format } = body;
    const { answer } = await embeddings.embed<string | Buffer>(
      call,
      commandOf(body),
      ({ vectors, dimensions }, promptTokens) =>
        writeEmbeddings({ vectors, dimensions, model, promptTokens, format: format ?? 'float' }),
    );
    return answer;
  },
};

export const embeddingRoutes: FastifyPluginAsyncTypebox<{ embeddings: EmbeddingsService }> = async (
  server,
  options,
) => {
  const { embeddings } = options;
  server.post(
    '/embeddings',
    {
      config: { operation: 'embeddings.create', fieldNames: embeddingEndpoint.fieldNames },
      schema: {
        summary: 'Create embeddings',
        tags: ['Inference'],
        body: embeddingEndpoint.schema,
        response: { 200: EmbeddingResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const call = inferenceCall(request, reply, '/v1/embeddings');
      const body = await embeddingEndpoint.answer(embeddings, call, request.body);
      return sendBody(reply.type('application/json; charset=utf-8'), body);
    },
  );
};

interface EmbeddingAnswer {
  vectors: Float32Array;
  dimensions: number;
  model: string;
  promptTokens: number;
  format: 'float' | 'base64';
}

const HEAD = '{"object":"list","data":[';
const ROW_OVERHEAD_BYTES = 64;
const SMALL_BYTES = 32_768;
/** Buffer for the digits of small answers, one row at a time. */
const scratch = Buffer.allocUnsafeSlow((SMALL_BYTES / 4) * MAX_FLOAT_BYTES);
/** Factor on the expected size. */
const SPARE_ROOM = 1.02;

/** The JSON of an embeddings answer. */
export function writeEmbeddings(body: EmbeddingAnswer): string | Promise<Buffer> {
  return body.vectors.byteLength <= SMALL_BYTES ? smallText(body) : writeRows(body);
}

const tailOf = ({ model, promptTokens }: EmbeddingAnswer): string =>
  `],"model":${JSON.stringify(model)},"usage":{"prompt_tokens":${promptTokens},"total_tokens":${promptTokens}}}`;

const rowHead = (row: number): string => `${row === 0 ? '' : ','}{"object":"embedding","index":${row},"embedding":`;

/** A string, because Node sends it in one piece with the head; bytes would be a second piece. */
function smallText(body: EmbeddingAnswer): string {
  const { vectors, dimensions, format } = body;
  const bytes = Buffer.from(vectors.buffer, vectors.byteOffset, vectors.byteLength);
  let text = HEAD;
  for (let start = 0; start < vectors.length; start += dimensions) {
    text += rowHead(start / dimensions);
    if (format === 'base64') {
      text += `"${bytes.toString('base64', start * 4, (start + dimensions) * 4)}"}`;
    } else {
      const end = writeFloats(vectors.subarray(start, start + dimensions), scratch, 0);
      text += `[${scratch.toString('latin1', 0, end - 1)}]}`;
    }
  }
  return text + tailOf(body);
}

/**
 * Writes directly into bytes: JSON.stringify needs an array of boxed numbers and writes the digits of a float64, which is several
 * times slower and almost twice as long (docs/decisions/2026-11-16-bodies-by-hand.md).
 */
async function writeRows(body: EmbeddingAnswer): Promise<Buffer> {
  const { vectors, dimensions, format } = body;
  const rows = vectors.length / dimensions;
  const tail = tailOf(body);
  const mostRowBytes =
    ROW_OVERHEAD_BYTES + (format === 'float' ? dimensions * MAX_FLOAT_BYTES : Math.ceil((dimensions * 4) / 3) * 4 + 4);
  const roomBytes = mostRowBytes + Buffer.byteLength(tail);
  const slice = createTimeSlice();
  const bytes = Buffer.from(vectors.buffer, vectors.byteOffset, vectors.byteLength);
  let target = Buffer.allocUnsafeSlow(HEAD.length + roomBytes);
  let at = target.write(HEAD, 'latin1');
  for (let row = 0; row < rows; row += 1) {
    if (target.length - at < roomBytes) {
      // Rows of one model have nearly the same length, so the first ones predict the rest.
      const restBytes = Math.ceil((at / row) * (rows - row) * SPARE_ROOM);
      const larger = Buffer.allocUnsafeSlow(at + restBytes + roomBytes);
      target.copy(larger, 0, 0, at);
      target = larger;
    }
    at += target.write(rowHead(row), at, 'latin1');
    const start = row * dimensions;
    if (format === 'base64') {
      // One after the other: concatenating them first would copy the text once more.
      at += target.write('"', at, 'latin1');
      at += target.write(bytes.toString('base64', start * 4, (start + dimensions) * 4), at, 'latin1');
      at += target.write('"}', at, 'latin1');
    } else {
      at += target.write('[', at, 'latin1');
      at = writeFloats(vectors.subarray(start, start + dimensions), target, at);
      // Overwrites the last comma.
      at += target.write(']}', at - 1, 'latin1') - 1;
    }
    if (slice.isOver()) await slice.next();
  }
  at += target.write(tail, at);
  return target.subarray(0, at);
}
