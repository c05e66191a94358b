import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A TCP proxy between one replica and one part. Cut, it drops nothing and answers nothing: connections hang, as in a broken network. */
export interface Link {
  readonly port: number;
  cut(): void;
  heal(): void;
  /** Every piece of data arrives this much later, in both directions. As many bytes a second pass as before. */
  slow(delayMs: number): void;
  close(): Promise<void>;
}

export interface LinkOptions {
  /** Where the replica connects to. */
  host: string;
  target: { host: string; port: number };
}

export async function openLink({ host, target }: LinkOptions): Promise<Link> {
  const pipes = new Set<{ pause(): void; resume(): void; destroy(): void }>();
  let isCut = false;
  let delayMs = 0;

  function forward(from: Socket, to: Socket): { pause(): void; resume(): void } {
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
      if (isDelayed) later(() => send(bytes));
      else send(bytes);
    });
    from.on('end', () => (isDelayed ? later(() => to.end()) : to.end()));
    from.on('error', () => to.destroy());
    from.on('close', () => (from.errored === null && !from.readableEnded ? to.destroy() : undefined));
    return { pause: () => from.pause(), resume: () => from.resume() };
  }

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    near.on('error', () => {});
    const far = connect({ ...target, allowHalfOpen: true, noDelay: true });
    far.on('error', () => near.destroy());
    const [up, down] = [forward(near, far), forward(far, near)];
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
    async close() {
      const closed = once(server, 'close');
      server.close();
      for (const pipe of pipes) pipe.destroy();
      await closed;
    },
  };
}
