import { Readable } from 'node:stream';
import { chunkUsed } from '@baobab/core/runtime/garbage-collection.ts';
import { type TurnShare, turnShares } from '@baobab/core/runtime/turn-shares.ts';
import type { FastifyReply } from 'fastify';
import plugin from 'fastify-plugin';
import { MIN_BYTES } from '../connections/open-connections.ts';
import { turnShareOf } from '../request/request-record.ts';

const LARGE_BYTES = 1_048_576;
/** What an account sends in a turn of the event loop while others are active. Each write to a socket costs time for its length. */
const TURN_BYTES = 65_536;
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

/** `length`: of the whole answer, if the client knows it: a client that has read all of it may leave before the source has ended. */
async function* piecesInTurns(source: Readable, share: TurnShare, length: number): AsyncGenerator<Uint8Array> {
  let left = 0;
  let unsent = length;
  for await (const chunk of source as AsyncIterable<Uint8Array>) {
    for (let at = 0; at < chunk.length; at += TURN_BYTES) {
      if (left <= 0) {
        await turnShares.take(share);
        left = TURN_BYTES;
      }
      const piece = chunk.subarray(at, at + TURN_BYTES);
      left -= piece.length;
      unsent -= piece.length;
      yield piece;
    }
    chunkUsed(chunk.length);
    if (unsent === 0) return;
  }
}

/** Nothing is read ahead: what is ready would be written as soon as a client has read, whoever else is active. */
const inTurns = (source: Readable, share: TurnShare, length: number): Readable =>
  Readable.from(piecesInTurns(source, share, length), { objectMode: false, highWaterMark: 0 });

/**
 * Sends large answers in pieces. Node reports nothing about a write until all of it has left, so that the progress of a slow client
 * on one large write cannot be told from a client that does not read. These, and answers that are streams, such as files, are sent as
 * their account has its share of the event loop.
 */
export const largeAnswers = plugin(async (server, { writeTimeoutMs }: { writeTimeoutMs: number }) => {
  const toStream = (payload: unknown, reply: FastifyReply): Readable | undefined => {
    if (payload instanceof Readable) return payload;
    const isText = typeof payload === 'string';
    if (!(isText || Buffer.isBuffer(payload)) || payload.length < LARGE_BYTES) return undefined;
    const body = isText ? Buffer.from(payload) : payload;
    reply.header('content-length', body.length);
    return inPieces(body, WRITE_TIMEOUTS * writeTimeoutMs);
  };
  server.addHook('onSend', ({ record: { principal } }, reply, payload, done) => {
    const source = toStream(payload, reply);
    if (source === undefined || principal === undefined) {
      done(null, source ?? payload);
      return;
    }
    // Also while it is being read: the end of what it is wrapped in would wait for it.
    reply.raw.once('close', () => source.destroy());
    const length = Number(reply.getHeader('content-length') ?? Number.POSITIVE_INFINITY);
    done(null, inTurns(source, turnShareOf(principal), length));
  });
});
