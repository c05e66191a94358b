/** Reads streams in a process of its own, and counts their events; `../streams.ts` starts it. */
import { connect, type Socket } from 'node:net';
import { postBytes } from '../raw-http.ts';

export type ClientCommand =
  /** Opens streams evenly spaced. Answered when each has had its first event. */
  | { kind: 'open'; url: string; headers: Record<string, string>; body: string; count: number; overMs: number }
  /** Answered with what came since the last mark. */
  | { kind: 'mark' }
  /** Answered when all streams have ended. */
  | { kind: 'wait' }
  | { kind: 'close' };

export interface Opened {
  /** Milliseconds until the first event of each stream, from before its connection opened. */
  firstEventMs: number[];
}

export interface Marked {
  events: number;
  /** The longest time that each stream waited for an event. */
  largestGapMs: number[];
}

const EVENT = Buffer.from('data: {');
const LAST = 'data: [DONE]';

class Stream {
  readonly socket: Socket;
  readonly begun = Promise.withResolvers<number>();
  readonly ended = Promise.withResolvers<void>();
  largestGapMs = 0;
  #latestAt = 0;

  constructor(target: URL, request: Buffer) {
    const startedAt = performance.now();
    this.socket = connect({ host: target.hostname, port: Number(target.port), noDelay: true });
    this.socket.on('connect', () => this.socket.write(request));
    this.socket.on('error', (error) => this.begun.reject(error));
    this.socket.on('close', () => {
      this.begun.reject(new Error('the server closed a stream'));
      this.ended.resolve();
    });
    this.socket.on('data', (bytes) => {
      if (bytes.includes(LAST)) this.ended.resolve();
      const events = countEvents(bytes);
      if (events === 0) {
        if (!bytes.toString('latin1').startsWith('HTTP/1.1 200')) this.#refuse(bytes);
        return;
      }
      const now = performance.now();
      received += events;
      if (this.#latestAt === 0) this.begun.resolve(now - startedAt);
      else this.largestGapMs = Math.max(this.largestGapMs, now - this.#latestAt);
      this.#latestAt = now;
    });
  }

  #refuse(bytes: Buffer): void {
    const text = bytes.toString('latin1');
    if (text.startsWith('HTTP/1.1')) this.socket.destroy(new Error(text.slice(0, 500)));
  }
}

function countEvents(bytes: Buffer): number {
  let events = 0;
  for (let at = bytes.indexOf(EVENT); at !== -1; at = bytes.indexOf(EVENT, at + EVENT.length)) events += 1;
  return events;
}

let streams: Stream[] = [];
let received = 0;

async function open({ url, headers, body, count, overMs }: Extract<ClientCommand, { kind: 'open' }>): Promise<Opened> {
  const target = new URL(url);
  const request = postBytes(target, headers, body);
  const startedAt = performance.now();
  const { promise: allSent, resolve } = Promise.withResolvers<void>();
  const timer = setInterval(() => {
    const due = Math.min(count, Math.ceil(((performance.now() - startedAt) / overMs) * count));
    while (streams.length < due) streams.push(new Stream(target, request));
    if (streams.length < count) return;
    clearInterval(timer);
    resolve();
  }, 1);
  await allSent;
  return { firstEventMs: await Promise.all(streams.map(({ begun }) => begun.promise)) };
}

function mark(): Marked {
  const marked = { events: received, largestGapMs: streams.map(({ largestGapMs }) => largestGapMs) };
  received = 0;
  for (const stream of streams) stream.largestGapMs = 0;
  return marked;
}

function close(): void {
  for (const { socket, begun } of streams) {
    begun.promise.catch(() => {});
    socket.destroy();
  }
  streams = [];
}

async function waitForEnd(): Promise<void> {
  await Promise.all(streams.map(({ ended }) => ended.promise));
  close();
}

process.on('message', async (command: ClientCommand) => {
  try {
    if (command.kind === 'open') process.send?.({ result: await open(command) });
    else if (command.kind === 'wait') process.send?.({ result: await waitForEnd() });
    else process.send?.({ result: command.kind === 'mark' ? mark() : close() });
  } catch (error) {
    process.send?.({ problem: (error as Error).message });
  }
});
