import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/**
 * Fails with the error of `listen` when the port cannot be opened. A server that cannot listen ends before it touches the store. Port 0
 * picks a free one.
 */
export async function freePort({ host, port }: { host: string; port: number }): Promise<number> {
  // A client that connects meanwhile would keep it from closing.
  const server = createServer((socket) => socket.destroy());
  server.listen({ host, port });
  await once(server, 'listening');
  const { port: found } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return found;
}
