import { createHash, type Hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { errors } from '@baobab/core/errors/errors.ts';
import { collectYoungGarbage } from '@baobab/core/runtime/garbage-collection.ts';
import { createTimeSlice } from '@baobab/core/runtime/time-slices.ts';
import { type FastifyRequest, errorCodes as fastifyErrors } from 'fastify';
import { type AccountAmounts, createAccountAmounts } from '../../admission/account-amounts.ts';
import { hashBody } from '../request/idempotent-run.ts';
import { parseSlices } from './json-slices.ts';
import { parseSmallJson, SMALL_BYTES, STEP_BYTES } from './json-value.ts';
import { mayBeEmpty } from './optional-body.ts';
import { WholeBodyMessage } from './whole-body-message.ts';

/** Above this the socket is paused. */
const MOST_WAITING_BYTES = 1_048_576;
/** Young garbage is collected after this much of a body. */
const COLLECT_EVERY_BYTES = 4_194_304;

type Done = (error: Error | null, value?: unknown) => void;

function readSmall(request: FastifyRequest, body: Buffer, done: Done): void {
  if (body.length === 0 && mayBeEmpty(request)) {
    done(null, undefined);
    return;
  }
  let value: unknown;
  try {
    const text = body.toString('utf8');
    if (request.headers['idempotency-key'] !== undefined) request.bodyHash = hashBody(text);
    value = parseSmallJson(text);
  } catch (error) {
    done(error as Error);
    return;
  }
  done(null, value);
}

/** Holds the chunks of a body until the parser takes them. */
function createArrival(payload: IncomingMessage) {
  let chunks: Buffer[] = [];
  let bytes = 0;
  let hasEnded = false;
  let isWanted = true;
  let wake = () => {};
  return {
    add(chunk: Buffer): void {
      if (!isWanted) return;
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes >= MOST_WAITING_BYTES) payload.pause();
      if (bytes >= STEP_BYTES) wake();
    },
    end(): void {
      hasEnded = true;
      wake();
    },
    /** Drops what is left: the parser has failed. */
    discard(): void {
      isWanted = false;
      chunks = [];
      payload.resume();
    },
    /** Several chunks at once, because the parser rescans a value that their end cuts off; undefined after the last one. */
    async next(): Promise<Buffer[] | undefined> {
      while (bytes < STEP_BYTES && !hasEnded) {
        const { promise, resolve } = Promise.withResolvers<void>();
        wake = resolve;
        await promise;
      }
      const taken = chunks;
      chunks = [];
      bytes = 0;
      payload.resume();
      return taken.length === 0 ? undefined : taken;
    },
  };
}

type Arrival = ReturnType<typeof createArrival>;

const SEND_FEWER = 'Send fewer at a time, and each without pauses.';

/** Parses a large body in slices while it arrives, until the client disconnects. */
async function parseArriving(arrival: Arrival, signal: AbortSignal): Promise<unknown> {
  const slice = createTimeSlice({ signal, background: true });
  const steps = parseSlices();
  let chunks: Buffer[] | undefined;
  let uncollectedBytes = 0;
  for (;;) {
    const step = steps.next(chunks);
    if (step.done) return step.value;
    if (step.value === 'more') {
      chunks = await arrival.next();
      for (const chunk of chunks ?? []) uncollectedBytes += chunk.length;
    }
    if (slice.isOver()) {
      await slice.next();
      // Otherwise V8 collects some 30 MB of new objects at once, nearly all of them still in use.
      if (uncollectedBytes >= COLLECT_EVERY_BYTES) {
        uncollectedBytes = 0;
        collectYoungGarbage();
        await slice.next();
      }
    }
  }
}

/** Bodies of an account that are received at once have at most this many times the size of the largest one. */
const LARGEST_AT_ONCE = 8;
/** Largest body without a key: a sign-in needs a few hundred bytes. */
const ANONYMOUS_BYTES = 16_384;
/** Joined beyond it: a chunk of one byte takes some 200 bytes of memory. */
const MAX_CHUNKS = 256;

interface Limits {
  bytes: number;
  received: AccountAmounts;
}

/** Reads a body from the stream. */
function readPieces(request: FastifyRequest, payload: IncomingMessage, limits: Limits, callback: Done): void {
  const accountId = request.record.principal?.account.id;
  let countedBytes = 0;
  const done: Done = (error, value) => {
    if (accountId !== undefined) limits.received.remove(accountId, countedBytes);
    callback(error, value);
  };
  const announced = Number(request.headers['content-length']);
  let chunks: Buffer[] = [];
  let bytes = 0;
  let arrival: Arrival | undefined;
  let hash: Hash | undefined;
  let parsed: Promise<{ value: unknown } | { error: Error }> | undefined;

  function finish(): void {
    payload.off('data', onData);
    payload.off('end', onEnd);
    payload.off('error', onError);
  }
  function beginLarge(): void {
    if (request.headers['idempotency-key'] !== undefined) hash = createHash('sha256');
    request.record.disconnect ??= new AbortController();
    const begun = createArrival(payload);
    arrival = begun;
    for (const chunk of chunks) addLarge(chunk, begun);
    // An error is sent only after the whole body arrived: a client that is still sending does not read.
    parsed = parseArriving(begun, request.record.disconnect.signal).then(
      (value) => ({ value }),
      (error: Error) => {
        begun.discard();
        return { error };
      },
    );
  }
  function addLarge(chunk: Buffer, to: Arrival): void {
    hash?.update(chunk);
    to.add(chunk);
  }
  function refuse(error: Error): void {
    finish();
    arrival?.end();
    done(error);
  }
  /** Those without a key are short. */
  function count(): boolean {
    if (accountId === undefined) return true;
    if (!limits.received.add(accountId, bytes - countedBytes)) return false;
    countedBytes = bytes;
    return true;
  }
  function onData(chunk: Buffer): void {
    bytes += chunk.length;
    if (bytes > limits.bytes) refuse(errors.bodyTooLarge(limits.bytes));
    else if (!count()) refuse(errors.tooManyAtOnce('requests of this account are being received', SEND_FEWER));
    else if (arrival !== undefined) addLarge(chunk, arrival);
    else {
      chunks.push(chunk);
      if (bytes > SMALL_BYTES) beginLarge();
      else if (chunks.length > MAX_CHUNKS) chunks = [Buffer.concat(chunks, bytes)];
    }
  }
  /** The connection is gone. */
  function onError(): void {
    finish();
    arrival?.end();
    done(errors.clientCancelled());
  }
  function onEnd(): void {
    finish();
    arrival?.end();
    if (!Number.isNaN(announced) && bytes !== announced) {
      done(errors.invalidParameter(undefined, 'The body is not as long as its Content-Length says.'));
    } else if (parsed !== undefined) {
      request.bodyHash = hash?.digest('hex');
      void parsed.then((result) => ('error' in result ? done(result.error) : done(null, result.value)));
    } else {
      const [only] = chunks;
      readSmall(request, only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks, bytes), done);
    }
  }
  payload.on('data', onData);
  payload.on('end', onEnd);
  payload.on('error', onError);
}

/** Also for the answer that there is no such endpoint. It is sent when all has arrived: a client that is still sending does not read. */
function skipBody(payload: IncomingMessage, done: Done): void {
  payload.on('end', () => done(null));
  payload.on('error', () => done(errors.clientCancelled()));
  payload.resume();
}

/** For bodies of types that no route reads. One that is empty is no body. */
export function refuseOtherType(request: FastifyRequest, payload: IncomingMessage, done: Done): void {
  const { headers } = request;
  const isEmpty = headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
  if (request.is404 || (isEmpty && mayBeEmpty(request))) skipBody(payload, done);
  else done(new fastifyErrors.FST_ERR_CTP_INVALID_MEDIA_TYPE(String(headers['content-type'])));
}

/** Parses JSON bodies as Fastify does, but without blocking the event loop for long. */
export const jsonBodyReader =
  (limitBytes: number, received = createAccountAmounts(LARGEST_AT_ONCE * limitBytes)) =>
  (request: FastifyRequest, payload: IncomingMessage, done: Done): void => {
    if (request.is404) {
      skipBody(payload, done);
      return;
    }
    const bytes = request.record.principal === undefined ? Math.min(limitBytes, ANONYMOUS_BYTES) : limitBytes;
    const announced = Number(request.headers['content-length']);
    const stream = () => readPieces(request, payload, { bytes, received }, done);
    if (announced > bytes) done(errors.bodyTooLarge(bytes));
    else if (announced <= SMALL_BYTES && payload instanceof WholeBodyMessage) {
      payload.readBody({ bytes: announced, take: (body) => readSmall(request, body, done), stream });
    } else stream();
  };
