import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * A TCP proxy between one replica and one part. Cut, it drops nothing and answers nothing: connections hang, as in a broken network.
 */
export interface Link {
  readonly port: number;
  cut(): void;
  heal(): void;
  /** Every piece of data arrives this much later, in both directions. As many bytes a second pass as before. */
  slow(delayMs: number): void;
  /** Ends all connections in the middle of what they transfer. New ones work. */
  reset(): void;
  /** Answers each connection with these bytes instead of the part, until `undefined`. */
  refuse(answer: string | undefined): void;
  close(): Promise<void>;
}

export interface LinkOptions {
  /** Where the replica connects to. */
  host: string;
  target: { host: string; port: number };
  /** Changes what the part answers, such as addresses that lead past the links. */
  translate?: (bytes: Buffer) => Buffer;
  /** Sees what the replica sends. */
  onSent?: (bytes: Buffer) => void;
}

const same = (bytes: Buffer): Buffer => bytes;

export async function openLink({ host, target, translate = same, onSent = () => {} }: LinkOptions): Promise<Link> {
  const pipes = new Set<{ pause(): void; resume(): void; destroy(): void }>();
  let isCut = false;
  let delayMs = 0;
  let refusal: string | undefined;

  function forward(from: Socket, to: Socket, changed: (bytes: Buffer) => Buffer): { pause(): void; resume(): void } {
    let queue = Promise.resolve();
    const send = (bytes: Buffer) => {
      if (to.destroyed) return;
      if (to.write(bytes) || isCut) return;
      from.pause();
      to.once('drain', () => !isCut && from.resume());
    };
    const later = (work: () => void) => {
      const dueMs = performance.now() + delayMs;
      queue = queue.then(() => sleep(Math.max(0, dueMs - performance.now()))).then(work);
    };
    let isDelayed = false;
    from.on('data', (bytes) => {
      isDelayed ||= delayMs > 0;
      const out = changed(bytes);
      if (isDelayed) later(() => send(out));
      else send(out);
    });
    from.on('end', () => (isDelayed ? later(() => to.end()) : to.end()));
    from.on('error', () => to.destroy());
    from.on('close', () => (from.errored === null && !from.readableEnded ? to.destroy() : undefined));
    return { pause: () => from.pause(), resume: () => from.resume() };
  }

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    near.on('error', () => {});
    const answer = refusal;
    if (answer !== undefined) {
      near.once('data', () => near.end(answer)).once('end', () => near.end());
      return;
    }
    const far = connect({ ...target, allowHalfOpen: true, noDelay: true });
    far.on('error', () => near.destroy());
    const seen = (bytes: Buffer) => {
      onSent(bytes);
      return bytes;
    };
    const [up, down] = [forward(near, far, seen), forward(far, near, translate)];
    const pipe = {
      pause: () => [up, down].forEach((way) => void way.pause()),
      resume: () => [up, down].forEach((way) => void way.resume()),
      destroy: () => [near, far].forEach((socket) => void socket.destroy()),
    };
    pipes.add(pipe);
    if (isCut) pipe.pause();
    near.once('close', () => pipes.delete(pipe));
  });
  server.listen(0, host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      isCut = true;
      for (const pipe of pipes) pipe.pause();
    },
    heal() {
      isCut = false;
      for (const pipe of pipes) pipe.resume();
    },
    slow(ms) {
      delayMs = ms;
    },
    reset() {
      for (const pipe of pipes) pipe.destroy();
    },
    refuse(answer) {
      refusal = answer;
      if (answer !== undefined) for (const pipe of pipes) pipe.destroy();
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      for (const pipe of pipes) pipe.destroy();
      await closed;
    },
  };
}
