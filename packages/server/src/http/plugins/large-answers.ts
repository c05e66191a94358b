import { Readable } from 'node:stream';
import plugin from 'fastify-plugin';
import { MIN_BYTES } from '../connections/open-connections.ts';

const LARGE_BYTES = 1_048_576;
/** These answers are held in memory until they are sent, so a client must read all of one within this many write timeouts. */
const WRITE_TIMEOUTS = 10;

/** The bytes as a stream of pieces. It fails when they are not read in time. */
function inPieces(body: Buffer, timeoutMs: number): Readable {
  let at = 0;
  const pieces = new Readable({
    highWaterMark: MIN_BYTES,
    read() {
      const piece = body.subarray(at, at + MIN_BYTES);
      at += piece.length;
      this.push(piece.length === 0 ? null : piece);
    },
  });
  const timer = setTimeout(() => pieces.destroy(new Error('The client reads its answer too slowly')), timeoutMs);
  timer.unref();
  pieces.once('close', () => clearTimeout(timer));
  return pieces;
}

/**
 * Sends large answers in pieces. Node reports nothing about a write until all of it has left, so that the progress of a slow client
 * on one large write cannot be told from a client that does not read.
 */
export const largeAnswers = plugin(async (server, { writeTimeoutMs }: { writeTimeoutMs: number }) => {
  server.addHook('onSend', (_request, reply, payload, done) => {
    const isText = typeof payload === 'string';
    if (!(isText || Buffer.isBuffer(payload)) || payload.length < LARGE_BYTES) {
      done(null, payload);
      return;
    }
    const body = isText ? Buffer.from(payload) : payload;
    reply.header('content-length', body.length);
    done(null, inPieces(body, WRITE_TIMEOUTS * writeTimeoutMs));
  });
});
