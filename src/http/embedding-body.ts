import type { FastifyReply } from 'fastify';
import { createSlice } from '../domain/slices.ts';
import { MAX_FLOAT_BYTES, writeFloat } from './float-text.ts';

export interface EmbeddingBody {
  vectors: Float32Array;
  dimensions: number;
  model: string;
  promptTokens: number;
  format: 'float' | 'base64';
}

const COMMA = 44;
const ROW_OVERHEAD_BYTES = 64;
const SMALL_BYTES = 32_768;

/** The JSON of an embeddings answer. */
export function writeEmbeddings(body: EmbeddingBody): string | Promise<Buffer> {
  const isSmall = body.format === 'base64' && body.vectors.byteLength <= SMALL_BYTES;
  return isSmall ? smallText(body) : writeRows(body);
}

const tailOf = ({ model, promptTokens }: EmbeddingBody): string =>
  `],"model":${JSON.stringify(model)},"usage":{"prompt_tokens":${promptTokens},"total_tokens":${promptTokens}}}`;

/** Node sends a text together with its head in one piece, bytes in a second one. */
function smallText(body: EmbeddingBody): string {
  const { vectors, dimensions } = body;
  const bytes = Buffer.from(vectors.buffer, vectors.byteOffset, vectors.byteLength);
  const rowBytes = dimensions * 4;
  let text = '{"object":"list","data":[';
  for (let start = 0; start < bytes.length; start += rowBytes) {
    const embedding = bytes.toString('base64', start, start + rowBytes);
    text += `${start === 0 ? '' : ','}{"object":"embedding","index":${start / rowBytes},"embedding":"${embedding}"}`;
  }
  return text + tailOf(body);
}

/**
 * Written straight into bytes: JSON.stringify would first make an array of boxed numbers and
 * then write float64 digits, several times slower and twice as long.
 */
async function writeRows(body: EmbeddingBody): Promise<Buffer> {
  const { vectors, dimensions, format } = body;
  const rows = vectors.length / dimensions;
  const rowBytes = format === 'float' ? dimensions * MAX_FLOAT_BYTES : Math.ceil((dimensions * 4) / 3) * 4 + 4;
  const parts: Buffer[] = [];
  const slice = createSlice();
  // One row at a time into a scratch buffer of the worst case, then an exact copy: the answer holds no slack.
  const scratch = Buffer.allocUnsafe(rowBytes + ROW_OVERHEAD_BYTES);
  const bytes = Buffer.from(vectors.buffer, vectors.byteOffset, vectors.byteLength);
  parts.push(Buffer.from('{"object":"list","data":['));
  for (let row = 0; row < rows; row += 1) {
    let at = scratch.write(`${row === 0 ? '' : ','}{"object":"embedding","index":${row},"embedding":`, 0, 'latin1');
    const start = row * dimensions;
    if (format === 'base64') {
      at += scratch.write(`"${bytes.toString('base64', start * 4, (start + dimensions) * 4)}"}`, at, 'latin1');
    } else {
      at += scratch.write('[', at, 'latin1');
      for (let index = start; index < start + dimensions; index += 1) {
        at = writeFloat(vectors[index] as number, scratch, at);
        scratch[at++] = COMMA;
      }
      at = at - 1 + scratch.write(']}', at - 1, 'latin1');
    }
    parts.push(Buffer.from(scratch.subarray(0, at)));
    if (slice.isOver()) await slice.next();
  }
  parts.push(Buffer.from(tailOf(body)));
  return Buffer.concat(parts);
}

export const sendJson = (reply: FastifyReply, body: Buffer | string): FastifyReply =>
  reply.type('application/json; charset=utf-8').send(body);
