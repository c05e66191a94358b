import { Duplex } from 'node:stream';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createFrameChannel, createFrameParser, encodeFrame } from './frames.ts';
import { bytesOf, floatsOf, packTexts, unpackTexts } from './messages.ts';

afterEach(() => {
  vi.useRealTimers();
});

type Frame = { header: unknown; body: number[] };

function parse(bytes: Buffer, cuts: readonly number[]): Frame[] {
  const frames: Frame[] = [];
  const parser = createFrameParser({ onFrame: (header, body) => frames.push({ header, body: [...body] }) });
  let start = 0;
  for (const cut of [...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length]) {
    parser.push(bytes.subarray(start, cut));
    start = cut;
  }
  return frames;
}

describe('frames', () => {
  it('come out as they went in, wherever the pipe cuts them', () => {
    const frame = fc.record({
      header: fc.record({ text: fc.string({ unit: 'grapheme' }), n: fc.integer() }),
      body: fc.uint8Array({ maxLength: 40 }),
    });
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 5 }), fc.array(fc.nat(400)), (frames, cuts) => {
        const bytes = Buffer.concat(
          frames.flatMap(({ header, body }) => [encodeFrame(header, body.byteLength), Buffer.from(body)]),
        );
        expect(parse(bytes, cuts)).toEqual(frames.map(({ header, body }) => ({ header, body: [...body] })));
      }),
    );
  });

  it('give bodies that a Float32Array can be laid over without a copy', () => {
    const floats = Float32Array.of(1 / 3, -0, 3.4e38, Number.NaN);
    let view: Float32Array | undefined;
    let shared = false;
    const parser = createFrameParser<{ odd: string }>({
      onFrame(_header, body) {
        view = floatsOf(body);
        shared = view.buffer === body.buffer;
      },
    });
    // A header of odd length would misalign a body that stayed in the pipe's own buffer.
    parser.push(Buffer.concat([encodeFrame({ odd: 'x' }, 16), bytesOf(floats)]));
    expect(shared).toBe(true);
    expect(view).toEqual(floats);
  });

  it('put a body where the receiver wants it', () => {
    const result = new Float32Array(4);
    const parser = createFrameParser<{ at: number }>({
      bodyBuffer: ({ at }) => bytesOf(result.subarray(at, at + 2)),
      onFrame() {},
    });
    parser.push(Buffer.concat([encodeFrame({ at: 2 }, 8), bytesOf(Float32Array.of(3, 4))]));
    parser.push(Buffer.concat([encodeFrame({ at: 0 }, 8), bytesOf(Float32Array.of(1, 2))]));
    expect([...result]).toEqual([1, 2, 3, 4]);
  });

  it('over the limit are refused on both sides', () => {
    expect(() => encodeFrame({}, 100, { maxBytes: 50 })).toThrow('over the limit of 50');
    const parser = createFrameParser({ onFrame() {} }, 50);
    expect(() => parser.push(encodeFrame({}, 100))).toThrow('over the limit of 50');
  });

  it('with an impossible header length close the channel with an error', async () => {
    const pipe = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
    const closed = Promise.withResolvers<Error | undefined>();
    createFrameChannel(pipe, { onFrame() {}, onClose: closed.resolve });
    pipe.push(Buffer.from([8, 0, 0, 0, 255, 0, 0, 0]));
    expect((await closed.promise)?.message).toContain('impossible header length');
  });

  it('of one turn of the event loop go out together and in order', async () => {
    const writes: Buffer[] = [];
    const written = Promise.withResolvers<void>();
    const pipe = new Duplex({
      read() {},
      writev(chunks, done) {
        writes.push(Buffer.concat(chunks.map(({ chunk }) => chunk)));
        written.resolve();
        done();
      },
    });
    const channel = createFrameChannel(pipe, { onFrame() {}, onClose() {} });
    channel.writeSoon({ n: 1 }, Uint8Array.of(7));
    await Promise.resolve();
    channel.writeSoon({ n: 2 });
    channel.writeSoon({ n: 3 }, Uint8Array.of(8, 9));
    expect(writes).toHaveLength(0);
    await written.promise;
    const received: unknown[] = [];
    const parser = createFrameParser<{ n: number }>({ onFrame: ({ n }, body) => received.push([n, ...body]) });
    for (const bytes of writes) parser.push(bytes);
    expect(writes).toHaveLength(1);
    expect(received).toEqual([[1, 7], [2], [3, 8, 9]]);
  });

  it('that must not wait take the gathered ones along, in order and before the call returns', () => {
    const received: unknown[] = [];
    const parser = createFrameParser<{ n: number }>({ onFrame: ({ n }, body) => received.push([n, ...body]) });
    const pipe = new Duplex({
      read() {},
      writev(chunks, done) {
        for (const { chunk } of chunks) parser.push(chunk);
        done();
      },
    });
    const channel = createFrameChannel(pipe, { onFrame() {}, onClose() {} });
    channel.writeSoon({ n: 1 }, Uint8Array.of(7));
    channel.write({ n: 2 }, Uint8Array.of(8));
    expect(received).toEqual([
      [1, 7],
      [2, 8],
    ]);
  });

  it('with a gap wait for each other until the last group has left so long ago', () => {
    vi.useFakeTimers();
    const groups: number[][] = [];
    const pipe = new Duplex({
      read() {},
      writev(chunks, done) {
        const group: number[] = [];
        const parser = createFrameParser<{ n: number }>({ onFrame: ({ n }) => group.push(n) });
        for (const { chunk } of chunks) parser.push(chunk);
        groups.push(group);
        done();
      },
    });
    const channel = createFrameChannel(pipe, { onFrame() {}, onClose() {} });
    const body = Uint8Array.of(7);
    channel.writeSoon({ n: 1 }, body, 20);
    vi.advanceTimersByTime(1);
    expect(groups).toEqual([[1]]);
    channel.writeSoon({ n: 2 }, body, 20);
    vi.advanceTimersByTime(10);
    channel.writeSoon({ n: 3 }, body, 20);
    vi.advanceTimersByTime(8);
    expect(groups).toEqual([[1]]);
    vi.advanceTimersByTime(4);
    expect(groups).toEqual([[1], [2, 3]]);
    channel.writeSoon({ n: 4 }, body, 20);
    vi.advanceTimersByTime(1);
    channel.writeSoon({ n: 5 }, body);
    vi.advanceTimersByTime(1);
    expect(groups).toEqual([[1], [2, 3], [4, 5]]);
    channel.writeSoon({ n: 6 }, body, 20);
    vi.advanceTimersByTime(1);
    channel.write({ n: 7 });
    expect(groups.at(-1)).toEqual([6, 7]);
    channel.writeSoon({ n: 8 }, body);
    channel.writeSoon({ n: 9 }, body, 20);
    vi.advanceTimersByTime(1);
    expect(groups.at(-1)).toEqual([8, 9]);
  });

  it('make the sender wait while the pipe is full', async () => {
    const release: (() => void)[] = [];
    const pipe = new Duplex({
      writableHighWaterMark: 16,
      read() {},
      write: (_chunk, _encoding, done) => release.push(done),
    });
    const channel = createFrameChannel(pipe, { onFrame() {}, onClose() {} });
    expect(channel.write({ n: 1 }, new Uint8Array(64))).toBe(false);
    let drained = false;
    const waiting = channel.drained().then(() => {
      drained = true;
    });
    await new Promise(setImmediate);
    expect(drained).toBe(false);
    while (release.length > 0) {
      release.shift()?.();
      await new Promise(setImmediate);
    }
    await waiting;
    expect(drained).toBe(true);
  });
});

describe('packed texts', () => {
  it('keep every text and its length in bytes', () => {
    const texts = ['', 'plain', 'Ẹ káàárọ̀', '日本語', '🦁'];
    const { byteLengths, body } = packTexts(texts);
    expect(unpackTexts(byteLengths, body)).toEqual(texts);
    expect(byteLengths[3]).toBe(9);
  });
});
