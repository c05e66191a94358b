import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface LocalServer {
  address: string;
  /** Paths, with `range` where one was asked for. */
  requests: string[];
  close(): void;
}

/** Answers by path: bytes as they are, other values as JSON, a number as an empty answer with that status. Everything else is a 404. */
export async function startLocalServer(answers: Record<string, unknown>): Promise<LocalServer> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const { url = '', headers } = request;
    requests.push(headers.range === undefined ? url : `${url} ${headers.range}`);
    const answer = answers[url];
    if (answer === undefined) response.writeHead(404).end();
    else if (typeof answer === 'number') response.writeHead(answer).end();
    else if (Buffer.isBuffer(answer)) response.writeHead(200).end(answer);
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
