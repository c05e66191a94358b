/** Questions between the supervisor and a worker, over the channel of `node:cluster`. */
interface Question {
  kind: 'baobab-question';
  id: number;
  name: string;
  value: unknown;
}

interface Answer {
  kind: 'baobab-answer';
  id: number;
  value?: unknown;
  problem?: string;
}

const ANSWER_TIMEOUT_MS = 10_000;

export interface Peer {
  /** Throws or does nothing when the other process is gone. */
  send(message: object): unknown;
  on(event: 'message', listener: (message: unknown) => void): unknown;
}

export type Handlers = Readonly<Record<string, (value: unknown) => unknown>>;

export interface Channel {
  /** Rejects when the other side fails, is gone or does not answer in time; without a limit it waits. */
  ask<T = void>(name: string, value?: unknown, options?: { timeoutMs?: number | undefined }): Promise<T>;
  /** Rejects what was asked and not answered. */
  close(): void;
}

const isMessage = (message: unknown): message is Question | Answer =>
  typeof message === 'object' &&
  message !== null &&
  'kind' in message &&
  (message.kind === 'baobab-question' || message.kind === 'baobab-answer');

export function createChannel(peer: Peer, handlers: Handlers): Channel {
  const open = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;

  async function answer({ id, name, value }: Question): Promise<void> {
    const reply = { kind: 'baobab-answer', id } as const;
    try {
      peer.send({ ...reply, value: await handlers[name]?.(value) } satisfies Answer);
    } catch (error) {
      peer.send({ ...reply, problem: (error as Error).message } satisfies Answer);
    }
  }

  peer.on('message', (message) => {
    if (!isMessage(message)) return;
    if (message.kind === 'baobab-question') {
      void answer(message).catch(() => {});
      return;
    }
    const waiting = open.get(message.id);
    if (message.problem === undefined) waiting?.resolve(message.value);
    else waiting?.reject(new Error(message.problem));
  });

  return {
    async ask<T>(
      name: string,
      value?: unknown,
      { timeoutMs }: { timeoutMs?: number | undefined } = { timeoutMs: ANSWER_TIMEOUT_MS },
    ) {
      lastId += 1;
      const id = lastId;
      const waiting = Promise.withResolvers<unknown>();
      open.set(id, waiting);
      const late = () => waiting.reject(new Error(`no answer to '${name}' within ${timeoutMs} ms`));
      const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
      try {
        peer.send({ kind: 'baobab-question', id, name, value } satisfies Question);
        return (await waiting.promise) as T;
      } finally {
        clearTimeout(timer);
        open.delete(id);
      }
    },
    close() {
      for (const waiting of open.values()) waiting.reject(new Error('the other process is gone'));
    },
  };
}
