import type { Server } from 'node:http';
import type { Socket } from 'node:net';

export interface OpenConnections {
  /** Watches the connection of a request as well, if another listener of the server has accepted it. */
  track(socket: Socket): void;
  /** Closes connections without a running request, now and whenever one becomes idle, until the server is closed. */
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
  /** Bytes read when it was opened: those of a TLS handshake. */
  openingBytes: number;
}

const CLOSE_IDLE_MS = 100;
const MAX_CHECK_INTERVAL_MS = 5_000;

/** Bytes that have left this process. `bytesWritten` alone also counts those that are buffered. */
const sentBytesOf = (socket: Socket): number => socket.bytesWritten - socket.writableLength;

/** Watches the connections of a server: destroys those whose client reads too slowly, and the idle ones at shutdown. */
export function watchConnections(server: Server, { writeTimeoutMs }: OpenConnectionsSettings): OpenConnections {
  const sockets = new Map<Socket, Progress>();
  const track = (socket: Socket) => {
    if (sockets.has(socket)) return;
    sockets.set(socket, { sentBytes: 0, since: performance.now(), openingBytes: socket.bytesRead });
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
  function closeIdle(): void {
    server.closeIdleConnections();
    for (const [socket, { openingBytes }] of sockets) if (socket.bytesRead === openingBytes) socket.destroy();
  }
  return {
    track,
    drain() {
      const sweep = setInterval(closeIdle, CLOSE_IDLE_MS);
      server.once('close', () => clearInterval(sweep));
    },
  };
}
