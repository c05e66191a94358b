import { createServer, type IncomingMessage, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What went to an engine and what it answered. */
export interface Exchange {
  method: string;
  path: string;
  /** As JSON where it was JSON. */
  body?: unknown;
  status: number;
  headers: Record<string, string>;
  answer: string;
}

export interface Recorder extends AsyncDisposable {
  /** Base address with /v1, to be used in place of the engine's. */
  readonly url: string;
  /** Takes what was recorded since the last call, in the order in which it ended. Health checks are not recorded. */
  take(): Promise<Exchange[]>;
}

/** Headers that the remote driver reads. */
const KEPT_HEADERS = ['content-type', 'x-compute-tokens'];

const readAll = async (message: IncomingMessage): Promise<Buffer> => {
  const parts: Buffer[] = [];
  for await (const part of message) parts.push(part);
  return Buffer.concat(parts);
};

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A server in front of an engine that passes everything on as it comes and remembers it. */
export async function startRecorder(enginePort: number): Promise<Recorder> {
  const exchanges: Exchange[] = [];
  /** Answers end a moment after their last byte has reached the client. */
  const running = new Set<Promise<unknown>>();
  const server = createServer(async (message, response) => {
    const body = await readAll(message);
    const { method = '', url: path = '' } = message;
    const onward = send({ host: '127.0.0.1', port: enginePort, method, path, headers: message.headers });
    onward.on('error', () => response.destroy());
    const closed = new Promise<void>((resolve) => onward.once('close', () => resolve()));
    running.add(closed);
    void closed.then(() => running.delete(closed));
    response.on('close', () => onward.destroy());
    onward.on('response', async (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      const parts: Buffer[] = [];
      answer.on('data', (part: Buffer) => {
        parts.push(part);
        response.write(part);
      });
      answer.on('error', () => response.destroy());
      answer.on('end', () => response.end());
      // Also when Baobab has heard enough and closes the connection.
      answer.on('close', () => {
        if (method === 'GET') return;
        const headers = Object.fromEntries(
          KEPT_HEADERS.flatMap((name) =>
            answer.headers[name] === undefined ? [] : [[name, `${answer.headers[name]}`]],
          ),
        );
        const status = answer.statusCode ?? 0;
        const text = Buffer.concat(parts).toString('utf8');
        exchanges.push({ method, path, body: parsed(body.toString('utf8')), status, headers, answer: text });
      });
    });
    onward.end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    async take() {
      await Promise.all(running);
      return exchanges.splice(0);
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
