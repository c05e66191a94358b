import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { create } from 'tar';

export type TarballAnswer = (tarball: Buffer, request: IncomingMessage, response: ServerResponse) => void;

export const sendWhole: TarballAnswer = (tarball, _request, response) => {
  response.end(tarball);
};

export const sendRange: TarballAnswer = (tarball, request, response) => {
  const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
  response.statusCode = from > 0 ? 206 : 200;
  response.end(tarball.subarray(from));
};

/** The first half, then silence. */
export const sendHalf: TarballAnswer = (tarball, _request, response) => {
  response.writeHead(200, { 'content-length': tarball.length });
  response.write(tarball.subarray(0, tarball.length / 2));
};

/** The first half, then the connection breaks. */
export const breakInTheMiddle: TarballAnswer = (tarball, request, response) => {
  sendHalf(tarball, request, response);
  setImmediate(() => response.destroy());
};

/** An npm registry with the two requests that matter: a package's metadata and its tarball. */
export async function startFakeRegistry() {
  const tarballs = new Map<string, Map<string, Buffer>>();
  const requests: { path: string; authorization: string | undefined; range: string | undefined }[] = [];
  const answers: TarballAnswer[] = [];

  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '');
    requests.push({ path, authorization: request.headers.authorization, range: request.headers.range });
    const tarballPath = /^\/(.+)\/-\/(.+)\.tgz$/.exec(path);
    if (tarballPath !== null) {
      const tarball = tarballs.get(tarballPath[1] ?? '')?.get(tarballPath[2] ?? '');
      if (tarball !== undefined) return void (answers.shift() ?? sendWhole)(tarball, request, response);
    }
    const versions = tarballs.get(path.slice(1));
    if (versions === undefined) return void response.writeHead(404).end('{}');
    response.setHeader('content-type', 'application/json');
    // As mirrors do: the metadata names the public registry.
    const dist = (version: string) => ({ tarball: `https://registry.npmjs.org${path}/-/${version}.tgz` });
    response.end(
      JSON.stringify({ versions: Object.fromEntries([...versions.keys()].map((v) => [v, { dist: dist(v) }])) }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    requests,
    tarballRequests: () => requests.filter(({ path }) => path.endsWith('.tgz')),
    publish(name: string, version: string, tarball: Buffer): void {
      const versions = tarballs.get(name) ?? new Map<string, Buffer>();
      tarballs.set(name, versions.set(version, tarball));
    },
    /** How the next tarball requests are answered, one each; whole ones after that. */
    answerNext: (...next: TarballAnswer[]) => answers.push(...next),
    async close(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A tarball of these files; a content `{ link }` becomes a symbolic link. */
export async function packTarball(files: Record<string, Buffer | string | { link: string }>): Promise<Buffer> {
  const directory = await mkdtemp(join(tmpdir(), 'pack-'));
  for (const [path, content] of Object.entries(files)) {
    const target = join(directory, path);
    await mkdir(dirname(target), { recursive: true });
    if (typeof content === 'object' && 'link' in content) await symlink(content.link, target);
    else await writeFile(target, content);
  }
  const chunks: Buffer[] = [];
  for await (const chunk of create({ gzip: true, cwd: directory }, Object.keys(files))) chunks.push(chunk);
  await rm(directory, { recursive: true });
  return Buffer.concat(chunks);
}
