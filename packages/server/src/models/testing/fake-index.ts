import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { crc32, deflateRawSync } from 'node:zlib';

export type WheelAnswer = (wheel: Buffer, request: IncomingMessage, response: ServerResponse) => void;

function rangeOf(wheel: Buffer, request: IncomingMessage): { from: number; body: Buffer } {
  const [, from = '0', to = ''] = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? '') ?? [];
  return { from: Number(from), body: wheel.subarray(Number(from), to === '' ? wheel.length : Number(to) + 1) };
}

const sendRange: WheelAnswer = (wheel, request, response) => {
  const { from, body } = rangeOf(wheel, request);
  response.writeHead(206, { 'content-range': `bytes ${from}-${from + body.length - 1}/${wheel.length}` });
  response.end(body);
};

/** As servers do that know nothing of ranges. */
export const sendWholeWheel: WheelAnswer = (wheel, _request, response) => {
  response.end(wheel);
};

/** Half of the range, then the connection breaks. */
export const breakInTheRange: WheelAnswer = (wheel, request, response) => {
  const { from, body } = rangeOf(wheel, request);
  response.writeHead(206, {
    'content-length': body.length,
    'content-range': `bytes ${from}-${from + body.length - 1}/${wheel.length}`,
  });
  response.write(body.subarray(0, body.length / 2), () => response.destroy());
};

/** A Python package index with the two requests that matter, a project's page and ranges of a wheel; and a Maven repository beside it. */
export async function startFakeIndex({ page = 'json' }: { page?: 'json' | 'html' } = {}) {
  const projects = new Map<string, Map<string, Buffer>>();
  const jars = new Map<string, Buffer>();
  const requests: { path: string; range: string | undefined; authorization: string | undefined }[] = [];
  const answers: { whenBytes: number; answer: WheelAnswer }[] = [];

  function sendPage(files: Map<string, Buffer>, response: ServerResponse): void {
    const names = [...files.keys()];
    if (page === 'json') {
      response.setHeader('content-type', 'application/vnd.pypi.simple.v1+json');
      const listed = names.map((filename) => ({ filename, url: `/files/${filename}#sha256=00`, hashes: {} }));
      return void response.end(JSON.stringify({ files: listed }));
    }
    response.setHeader('content-type', 'text/html');
    const links = names.map((name) => `<a href="../../files/${name}#sha256=00" data-x="&gt;=3">${name}</a><br/>`);
    response.end(`<!DOCTYPE html><html><body>${links.join('\n')}</body></html>`);
  }

  const server = createServer((request, response) => {
    const path = request.url ?? '';
    requests.push({ path, range: request.headers.range, authorization: request.headers.authorization });
    const [, project] = /^\/simple\/([^/]+)\/$/.exec(path) ?? [];
    const files = projects.get(project ?? '');
    if (files !== undefined) return sendPage(files, response);
    const [, name = ''] = /^\/files\/(.+)$/.exec(path) ?? [];
    const wheel =
      jars.get(path) ?? [...projects.values()].map((each) => each.get(name)).find((each) => each !== undefined);
    if (wheel === undefined) return void response.writeHead(404).end();
    const { body } = rangeOf(wheel, request);
    const [next] = answers;
    if (next === undefined || body.length < next.whenBytes) return sendRange(wheel, request, response);
    answers.shift();
    next.answer(wheel, request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `${origin}/simple`,
    mavenUrl: `${origin}/maven2`,
    requests,
    wheelRequests: () => requests.filter(({ path }) => path.startsWith('/files/')),
    publish(project: string, version: string, wheel: Buffer): void {
      const files = projects.get(project) ?? new Map<string, Buffer>();
      projects.set(project, files.set(`${project.replaceAll('-', '_')}-${version}-py3-none-any.whl`, wheel));
    },
    /** `path` as Maven lays out its repositories, such as `org/acme/weights/1.0.0/weights-1.0.0.jar`. */
    publishJar: (path: string, jar: Buffer) => void jars.set(`/maven2/${path}`, jar),
    /** How the next request for at least so many bytes of a wheel is answered. */
    answerNext: (whenBytes: number, answer: WheelAnswer) => answers.push({ whenBytes, answer }),
    async close(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A zip archive of these files, deflated. */
export function packWheel(files: Record<string, Buffer | string>): Buffer {
  const locals: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [path, text] of Object.entries(files)) {
    const content = Buffer.from(text);
    const packed = deflateRawSync(content);
    const name = Buffer.from(path);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(8, 8);
    local.writeUInt32LE(crc32(content), 14);
    local.writeUInt32LE(packed.length, 18);
    local.writeUInt32LE(content.length, 22);
    local.writeUInt16LE(name.length, 26);
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50, 0);
    local.copy(central, 8, 6, 30);
    central.writeUInt32LE(offset, 42);
    directory.push(central, name);
    locals.push(local, name, packed);
    offset += local.length + name.length + packed.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt32LE(Buffer.concat(directory).length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...locals, ...directory, end]);
}
