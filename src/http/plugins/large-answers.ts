import { Readable } from 'node:stream';
import plugin from 'fastify-plugin';

const LARGE_BYTES = 1_048_576;
/** A client must read one piece within the write timeout: 9 kB a second by default. */
const PIECE_BYTES = 262_144;

/** The bytes as a stream of pieces. */
function inPieces(body: Buffer): Readable {
  let at = 0;
  return new Readable({
    highWaterMark: PIECE_BYTES,
    read() {
      const piece = body.subarray(at, at + PIECE_BYTES);
      at += piece.length;
      this.push(piece.length === 0 ? null : piece);
    },
  });
}

/**
 * Sends large answers in pieces. Node reports nothing about a write until all of it has left, so that the progress of a slow client
 * on one large write cannot be told from a client that does not read.
 */
export const largeAnswers = plugin(async (server) => {
  server.addHook('onSend', (_request, reply, payload, done) => {
    const isText = typeof payload === 'string';
    if (!(isText || Buffer.isBuffer(payload)) || payload.length < LARGE_BYTES) {
      done(null, payload);
      return;
    }
    const body = isText ? Buffer.from(payload) : payload;
    reply.header('content-length', body.length);
    done(null, inPieces(body));
  });
});
