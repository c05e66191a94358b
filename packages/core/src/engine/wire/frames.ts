import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/**
 * Frames on a pipe between the server and an engine process:
 *
 *   u32 length of what follows · u32 length of the header · header as JSON · body as raw bytes
 *
 * Numbers are little-endian. A body lands in aligned memory (or in the receiver's own buffer), so a `Float32Array` can be
 * laid over it; it is copied once, out of the pipe, and never parsed. docs/decisions/2026-11-15-engine-ipc.md has the figures.
 */
const MAX_FRAME_BYTES = 256 * 1024 * 1024;

const HEAD_BYTES = 8;
/** Up to here a copy costs less than a second piece to write. */
const COPIED_BYTES = 8192;
const NO_BODY = new Uint8Array(0);
const READ_BYTES = 65_536;

export interface FrameReceiver<In> {
  onFrame(header: In, body: Uint8Array): void;
  /** Lets the receiver say where a body goes; memory of its own otherwise. */
  bodyBuffer?(header: In, bytes: number): Uint8Array | undefined;
}

class FrameError extends Error {
  override readonly name = 'FrameError';
}

/** The start of a frame, with `room` for the first bytes of its body behind it. */
export function encodeFrame(header: unknown, bodyBytes: number, { maxBytes = MAX_FRAME_BYTES, room = 0 } = {}): Buffer {
  const json = JSON.stringify(header);
  const headerBytes = Buffer.byteLength(json);
  const length = 4 + headerBytes + bodyBytes;
  if (length > maxBytes) throw new FrameError(`A frame of ${length} bytes is over the limit of ${maxBytes}`);
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + headerBytes + room);
  bytes.writeUInt32LE(length, 0);
  bytes.writeUInt32LE(headerBytes, 4);
  bytes.write(json, HEAD_BYTES);
  return bytes;
}

/** Takes the bytes of a pipe in pieces of any size and gives whole frames. */
export function createFrameParser<In>(receiver: FrameReceiver<In>, maxBytes = MAX_FRAME_BYTES) {
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  let stage: 'head' | 'header' | 'body' = 'head';
  let json = head;
  let target: Uint8Array = head;
  let filled = 0;
  let bodyBytes = 0;
  let header: In | undefined;

  function expect(next: typeof stage, into: Uint8Array): void {
    stage = next;
    target = into;
    filled = 0;
  }

  function deliver(body: Uint8Array): void {
    const complete = header as In;
    header = undefined;
    expect('head', head);
    receiver.onFrame(complete, body);
  }

  function bufferOf(complete: In): Uint8Array {
    const own = receiver.bodyBuffer?.(complete, bodyBytes);
    if (own !== undefined && own.byteLength !== bodyBytes)
      throw new FrameError('The buffer for a body has the wrong size');
    return own ?? Buffer.allocUnsafe(bodyBytes);
  }

  /** The length of the header. */
  function readHead(bytes: Buffer, at: number): number {
    const length = bytes.readUInt32LE(at);
    const headerBytes = bytes.readUInt32LE(at + 4);
    if (length > maxBytes) throw new FrameError(`A frame of ${length} bytes is over the limit of ${maxBytes}`);
    if (headerBytes === 0 || headerBytes > length - 4) throw new FrameError('A frame has an impossible header length');
    bodyBytes = length - 4 - headerBytes;
    return headerBytes;
  }

  function advance(): void {
    if (stage === 'head') {
      json = Buffer.allocUnsafe(readHead(head, 0));
      expect('header', json);
    } else if (stage === 'header') {
      begin(json.toString());
    } else {
      deliver(target);
    }
  }

  function begin(text: string): void {
    header = JSON.parse(text) as In;
    if (bodyBytes === 0) deliver(NO_BODY);
    else expect('body', bufferOf(header));
  }

  /** Most chunks hold whole frames: then the header is read in place. Returns the offset behind it, or the same offset. */
  function skipHeader(chunk: Buffer, offset: number): number {
    if (stage !== 'head' || filled > 0 || chunk.length - offset < HEAD_BYTES) return offset;
    const start = offset + HEAD_BYTES;
    const end = start + readHead(chunk, offset);
    if (end > chunk.length) return offset;
    begin(chunk.toString('utf8', start, end));
    return end;
  }

  return {
    push(chunk: Buffer): void {
      let offset = 0;
      while (offset < chunk.length) {
        const next = skipHeader(chunk, offset);
        if (next > offset) {
          offset = next;
          continue;
        }
        const take = Math.min(target.byteLength - filled, chunk.length - offset);
        target.set(chunk.subarray(offset, offset + take), filled);
        filled += take;
        offset += take;
        if (filled === target.byteLength) advance();
      }
    },
  };
}

export interface FrameChannel<Out> {
  /** Written at once, so that a crash right after it loses nothing. False: the pipe is full, await `drained` before the next large frame. */
  write(header: Out, body?: Uint8Array): boolean;
  /**
   * The same, but frames of one turn of the event loop are written together: one system call here, one wake-up at the other end.
   * With `gapMs` a group also waits until so long after the last one; the shortest gap in a group counts. For frames whose loss in
   * a crash does no harm, because the call is repeated.
   */
  writeSoon(header: Out, body?: Uint8Array, gapMs?: number): boolean;
  isFull(): boolean;
  /** Resolves when the pipe takes more or closes. */
  drained(): Promise<void>;
  close(): void;
}

export interface FrameChannelOptions<In> extends FrameReceiver<In> {
  /** The other side is gone, or sent what is not a frame. Called once. */
  onClose(error?: Error): void;
}

/** Reads into one buffer instead of the queue and the events of a stream. */
const openPipe = (fd: number, onChunk: (chunk: Buffer) => void): Socket => {
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  const callback = (bytes: number): boolean => {
    onChunk(buffer.subarray(0, bytes));
    return true;
  };
  return new Socket({ fd, readable: true, writable: true, onread: { buffer, callback } });
};

/** `end`: an open stream, or a file descriptor to open. */
export function createFrameChannel<Out, In>(end: Duplex | number, options: FrameChannelOptions<In>): FrameChannel<Out> {
  const parser = createFrameParser<In>(options);
  let closed = false;
  let failure: Error | undefined;
  let gathering = false;
  let checking = false;
  let gapMs = 0;
  let lastGroupAt = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  const receive = (chunk: Buffer): void => {
    try {
      parser.push(chunk);
    } catch (error) {
      pipe.destroy(error instanceof Error ? error : new FrameError(String(error)));
    }
  };
  const pipe = typeof end === 'number' ? openPipe(end, receive) : end.on('data', receive);
  pipe.on('error', (error) => {
    failure = error;
  });
  pipe.on('end', () => pipe.destroy());
  pipe.on('close', () => {
    closed = true;
    options.onClose(failure);
  });

  function sendGathered(): void {
    if (!gathering) return;
    gathering = false;
    clearTimeout(timer);
    timer = undefined;
    lastGroupAt = performance.now();
    pipe.uncork();
  }

  function sendWhenDue(): void {
    checking = false;
    if (!gathering) return;
    const waitMs = gapMs === 0 ? 0 : lastGroupAt + gapMs - performance.now();
    if (waitMs <= 0) sendGathered();
    else timer ??= setTimeout(sendGathered, waitMs);
  }

  function gather(): void {
    if (!gathering) pipe.cork();
    gathering = true;
    if (!checking) setImmediate(sendWhenDue);
    checking = true;
  }

  /** In the order of the calls, and head and body in one system call. */
  function append(header: Out, body: Uint8Array): boolean {
    if (closed || pipe.destroyed) return true;
    if (body.byteLength <= COPIED_BYTES) {
      const frame = encodeFrame(header, body.byteLength, { room: body.byteLength });
      frame.set(body, frame.byteLength - body.byteLength);
      return pipe.write(frame);
    }
    const head = encodeFrame(header, body.byteLength);
    pipe.cork();
    pipe.write(head);
    const ready = pipe.write(body);
    pipe.uncork();
    return ready;
  }

  const isFull = () => pipe.writableNeedDrain && !closed && !pipe.destroyed;

  return {
    write(header, body = NO_BODY) {
      const ready = append(header, body);
      sendGathered();
      return ready;
    },
    writeSoon(header, body = NO_BODY, gap = 0) {
      gapMs = gathering ? Math.min(gapMs, gap) : gap;
      gather();
      const ready = append(header, body);
      if (!ready) sendGathered();
      return ready;
    },
    isFull,
    async drained() {
      while (isFull()) {
        await new Promise<void>((resolve) => {
          const done = () => {
            pipe.off('drain', done);
            pipe.off('close', done);
            resolve();
          };
          pipe.on('drain', done);
          pipe.on('close', done);
        });
      }
    },
    close: () => pipe.destroy(),
  };
}
