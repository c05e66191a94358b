import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { type Service, startService } from '../../../packages/server/src/compose/service.ts';
import { loadConfig } from '../../../packages/server/src/config/load.ts';
import { type FakeUpstream, startFakeUpstream } from '../../fixtures/fake-upstream.ts';

export const KEY = 'integration-key-0123456789';
export const CHAT = 'qwen/qwen2.5-0.5b-instruct';
export const EMBEDDING = 'baai/bge-m3';
/** Nothing listens there: tests need no network and must not wait for one. */
const NOWHERE = 'http://127.0.0.1:9';

export interface Answer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

export interface HttpBed extends AsyncDisposable {
  address: string;
  service: Service;
  chat: FakeUpstream;
  embedding: FakeUpstream;
  fetch(path: string, options?: RequestInit & { key?: string | null }): Promise<Response>;
  post(path: string, body: unknown, key?: string): Promise<Response>;
  open(): Promise<Socket>;
  /** Sends bytes as they are and reads until the server closes or the answer is complete. */
  raw(request: string | Uint8Array): Promise<Answer>;
}

function parseAnswer(text: string): Answer | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [statusLine = '', ...lines] = text.slice(0, end).split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  return { status: Number(statusLine.split(' ')[1]), headers, body: text.slice(end + 4) };
}

/** Resolves with the first whole answer on a connection, or with what there is when it closes. */
export function readAnswer(socket: Socket): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let text = '';
    socket.setEncoding('latin1');
    const look = (closed: boolean) => {
      const answer = parseAnswer(text);
      if (
        answer !== undefined &&
        (closed || answer.body.length >= Number(answer.headers['content-length'] ?? Infinity))
      ) {
        resolve(answer);
        socket.destroy();
      } else if (closed) reject(new Error(`the connection closed without an answer: ${JSON.stringify(text)}`));
    };
    socket.on('data', (chunk) => {
      text += chunk;
      look(false);
    });
    socket.on('error', () => {});
    socket.on('close', () => look(true));
  });
}

/** The whole service in this process, on a free port, with fake upstreams instead of weights. */
export async function startHttpBed(settings: Record<string, unknown> = {}): Promise<HttpBed> {
  const directory = await mkdtemp(join(tmpdir(), 'baobab-http-'));
  const chat = await startFakeUpstream('vllm');
  const embedding = await startFakeUpstream('tei', { dimensions: 1024, contextLength: 8192 });
  const file = {
    data_dir: join(directory, 'data'),
    port: 0,
    first_key: KEY,
    log: { level: 'silent' },
    models: { hf_endpoint: NOWHERE, maven_repository: NOWHERE },
    upstreams: [
      { model: CHAT, url: chat.url, kind: 'vllm' },
      { model: EMBEDDING, url: embedding.url, kind: 'tei' },
    ],
    ...settings,
  };
  await writeFile(join(directory, 'baobab.yaml'), stringify(file));
  const { config } = loadConfig({ args: [], env: {}, workingDirectory: directory });
  const service = await startService(config, { env: { npm_config_registry: NOWHERE, HOME: directory } });
  const { address } = service;
  const { hostname, port } = new URL(address);

  const open = () =>
    new Promise<Socket>((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => resolve(socket));
      socket.once('error', reject);
    });
  const request: HttpBed['fetch'] = (path, { key = KEY, headers, ...options } = {}) =>
    fetch(`${address}${path}`, {
      ...options,
      headers: { ...(key === null ? {} : { authorization: `Bearer ${key}` }), ...(headers as Record<string, string>) },
    });
  return {
    address,
    service,
    chat,
    embedding,
    open,
    fetch: request,
    post: (path, body, key = KEY) =>
      request(path, {
        method: 'POST',
        key,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    async raw(bytes) {
      const socket = await open();
      const answer = readAnswer(socket);
      socket.write(bytes);
      return answer;
    },
    async [Symbol.asyncDispose]() {
      await service.close();
      await chat.close();
      await embedding.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
