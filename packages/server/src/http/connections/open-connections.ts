import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';

export interface OpenConnections {
  /** A request has arrived. Watches its connection as well, if another listener of the server has accepted it. */
  track(socket: Socket): void;
  /**
   * Resolves when nothing has arrived for a moment, at the latest after this time. What has arrived by then is accepted: connections that
   * wait to be accepted when the server stops listening are reset.
   */
  quiet(atMostMs: number): Promise<void>;
  /** Closes connections that become idle soon after it, until the server is closed, and those that are never used. */
  drain(): void;
}

export interface OpenConnectionsSettings {
  /** A client must read `MIN_BYTES` of its answer within this time. */
  writeTimeoutMs: number;
}

/** 9 kB a second by default. */
export const MIN_BYTES = 262_144;

interface Progress {
  /** Bytes that the client's side had accepted when the time began. */
  sentBytes: number;
  /** Unsent bytes wait since then, and the client has read fewer than `MIN_BYTES`. */
  since: number;
  openedAt: number;
  /** Bytes read when it was opened: those of a TLS handshake. */
  openingBytes: number;
}

const CLOSE_UNUSED_MS = 100;
/** A request that follows the opening of its connection arrives within this time. Others opened it in advance. */
const UNUSED_GRACE_MS = 1_000;
/** After an answer that could not say that the connection closes. */
const IDLE_GRACE_MS = 1_000;
const QUIET_MS = 250;
/** A turn of the event loop in which nothing happens takes less. */
const EMPTY_TURN_MS = 0.5;
const MAX_TURNS = 50;
const MAX_CHECK_INTERVAL_MS = 5_000;

/** Bytes that have left this process. `bytesWritten` alone also counts those that are buffered. */
const sentBytesOf = (socket: Socket): number => socket.bytesWritten - socket.writableLength;

/** Watches the connections of a server: destroys those whose client reads too slowly, and the idle ones at shutdown. */
export function watchConnections(server: Server, { writeTimeoutMs }: OpenConnectionsSettings): OpenConnections {
  const sockets = new Map<Socket, Progress>();
  let arrivedAt = Number.NEGATIVE_INFINITY;
  const track = (socket: Socket) => {
    const now = performance.now();
    arrivedAt = now;
    if (sockets.has(socket)) return;
    sockets.set(socket, { sentBytes: 0, since: now, openedAt: now, openingBytes: socket.bytesRead });
    socket.once('close', () => sockets.delete(socket));
  };
  server.on('connection', track);
  // On a TLS server, encrypted connections were tracked until then.
  server.on('secureConnection', track);

  function destroyStalled(): void {
    const now = performance.now();
    for (const [socket, progress] of sockets) {
      const sentBytes = sentBytesOf(socket);
      if (socket.writableLength === 0 || sentBytes - progress.sentBytes >= MIN_BYTES) {
        progress.sentBytes = sentBytes;
        progress.since = now;
      } else if (now - progress.since >= writeTimeoutMs) socket.destroy();
    }
  }
  const check = setInterval(destroyStalled, Math.min(MAX_CHECK_INTERVAL_MS, writeTimeoutMs / 4));
  check.unref();
  server.once('close', () => clearInterval(check));

  // When it stops listening, Node closes idle connections, but not those whose last answer ends later, nor those on which nothing
  // was ever sent, which clients open in advance.
  function closeUnused(): void {
    const before = performance.now() - UNUSED_GRACE_MS;
    for (const [socket, { openedAt, openingBytes }] of sockets) {
      if (socket.bytesRead === openingBytes && openedAt <= before) socket.destroy();
    }
  }

  /** Each turn of the event loop accepts all connections that wait. They must not come while it does the rest of a long turn. */
  async function acceptWaiting(): Promise<void> {
    for (let turn = 0; turn < MAX_TURNS; turn += 1) {
      const began = performance.now();
      await nextTurn();
      if (performance.now() - began < EMPTY_TURN_MS && arrivedAt < began) return;
    }
  }

  return {
    track,
    async quiet(atMostMs) {
      const until = performance.now() + atMostMs;
      for (;;) {
        const waitMs = Math.min(arrivedAt + QUIET_MS, until) - performance.now();
        if (waitMs <= 0) break;
        await delay(waitMs);
      }
      await acceptWaiting();
    },
    drain() {
      server.keepAliveTimeout = IDLE_GRACE_MS;
      const sweep = setInterval(closeUnused, CLOSE_UNUSED_MS);
      server.once('close', () => clearInterval(sweep));
    },
  };
}
