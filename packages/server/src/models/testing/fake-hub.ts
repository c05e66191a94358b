import { createHash } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The requests that the hub library makes for a pull: paths-info and resolve, with ranges. */
export async function startFakeHub(repo: string, revision: string) {
  const files = new Map<string, { content: Buffer; lfs: boolean }>();
  const requests: { method: string; path: string; range: string | undefined; authorization: string | undefined }[] = [];
  let requiredToken: string | null = null;
  let breakAfterBytes: number | null = null;
  let hold: { afterBytes: number; released: Promise<void> } | null = null;

  function describe(path: string) {
    const file = files.get(path);
    if (file === undefined) return [];
    const size = file.content.length;
    const oid = createHash('sha1').update(`blob ${size}\0`).update(file.content).digest('hex');
    const lfs = { oid: createHash('sha256').update(file.content).digest('hex'), size, pointerSize: 130 };
    return [{ type: 'file', path, size, oid, ...(file.lfs ? { lfs } : {}) }];
  }

  async function sendFile(content: Buffer, range: string | undefined, response: ServerResponse): Promise<void> {
    const [, from = '0', to = ''] = /bytes=(\d+)-(\d*)/.exec(range ?? '') ?? [];
    const end = to === '' ? content.length : Number(to) + 1;
    const body = content.subarray(Number(from), end);
    response.writeHead(range === undefined ? 200 : 206, {
      etag: '"etag"',
      'content-length': body.length,
      'content-range': `bytes ${from}-${end - 1}/${content.length}`,
    });
    if (hold !== null && body.length > hold.afterBytes) {
      response.write(body.subarray(0, hold.afterBytes));
      const { afterBytes, released } = hold;
      await released;
      return void response.end(body.subarray(afterBytes));
    }
    if (breakAfterBytes === null || body.length <= breakAfterBytes) return void response.end(body);
    response.write(body.subarray(0, breakAfterBytes), () => response.destroy());
    breakAfterBytes = null;
  }

  const server = createServer(async (request, response) => {
    const { method = '', url: path = '' } = request;
    const { range, authorization } = request.headers;
    requests.push({ method, path, range, authorization });
    if (requiredToken !== null && authorization !== `Bearer ${requiredToken}`)
      return void response.writeHead(401).end();
    if (path === `/api/models/${repo}/paths-info/${revision}`) {
      let body = '';
      for await (const chunk of request) body += chunk;
      const { paths } = JSON.parse(body) as { paths: string[] };
      response.setHeader('content-type', 'application/json');
      return void response.end(JSON.stringify(paths.flatMap(describe)));
    }
    const file = files.get(path.replace(`/${repo}/resolve/${revision}/`, ''));
    if (file === undefined) return void response.writeHead(404).end();
    await sendFile(file.content, range, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    add: (path: string, content: Buffer, options: { lfs: boolean }) => files.set(path, { content, ...options }),
    requireToken(token: string) {
      requiredToken = token;
    },
    breakNextBodyAfter(bytes: number) {
      breakAfterBytes = bytes;
    },
    /** Sends the first bytes of larger bodies, and the rest after the returned function is called. */
    holdBodiesAfter(bytes: number): () => void {
      const { promise, resolve } = Promise.withResolvers<void>();
      hold = { afterBytes: bytes, released: promise };
      return () => {
        hold = null;
        resolve();
      };
    },
    async close(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
