/**
 * Compares our hand-written body reading and writing with the platform's, in one process: large JSON in slices with `JSON.parse`,
 * float text with `JSON.stringify`, and small bodies with Fastify's parser.
 *
 *   node bench/bodies.ts [slices] [floats] [small]
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import Fastify, { type FastifyInstance } from 'fastify';
import { jsonBodyReader } from '../src/http/body/json-body.ts';
import { parseSlices } from '../src/http/body/json-slices.ts';
import { WholeBodyMessage } from '../src/http/body/whole-body-message.ts';
import { writeEmbeddings } from '../src/http/endpoints/embeddings/vector-json.ts';
import { median, printConditions } from './measure.ts';

const ROUNDS = 7;
const CHUNK_BYTES = 65_536;

/** Distinct items, as in real bodies, up to a length. */
function list(bytes: number, item: (index: number) => string): string {
  const items: string[] = [];
  for (let length = 0; length < bytes; length += (items.at(-1)?.length ?? 0) + 1) items.push(item(items.length));
  return items.join(',');
}
const sentence = (index: number) =>
  `"Text ${index}: a baobab stores water in its trunk, é and \\"quotes\\" too, for the dry months of the year."`;
const bodiesOf = (bytes: number): Record<string, string> => ({
  texts: `{"model":"m","input":[${list(bytes, sentence)}]}`,
  'token ids': `{"model":"m","input":[${list(bytes, (index) => `[101,${index},2003,1037,6251,102]`)}]}`,
  'one text': `{"model":"m","input":"${'word '.repeat(bytes / 5)}"}`,
  messages: `{"model":"m","messages":[${list(bytes, (index) => `{"role":"user","content":"${`Message ${index} of many. `.repeat(40)}"}`)}]}`,
});

function inSlices(body: Buffer): { value: unknown; longestMs: number } {
  const steps = parseSlices();
  let at = 0;
  let longestMs = 0;
  let chunk: Buffer[] | undefined;
  for (;;) {
    const start = performance.now();
    const step = steps.next(chunk);
    longestMs = Math.max(longestMs, performance.now() - start);
    if (step.done) return { value: step.value, longestMs };
    if (step.value === 'pause') continue;
    const next = body.subarray(at, at + 2 * CHUNK_BYTES);
    at += next.length;
    chunk = next.length === 0 ? undefined : [next];
  }
}

const slices = () => [5, 32].forEach(slicesOf);

function timed(work: () => unknown): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}

function slicesOf(megabytes: number): void {
  const rows = Object.entries(bodiesOf(megabytes * 1e6)).map(([name, text]) => {
    const body = Buffer.from(text);
    const [whole, cut, longest]: [number[], number[], number[]] = [[], [], []];
    for (let round = 0; round < ROUNDS; round += 1) {
      whole.push(timed(() => JSON.parse(body.toString())));
      cut.push(timed(() => longest.push(inSlices(body).longestMs)));
    }
    const [wholeMs, cutMs] = [median(whole), median(cut)];
    return {
      [`${megabytes} MB of`]: name,
      'JSON.parse ms': wholeMs.toFixed(1),
      'slices ms': cutMs.toFixed(1),
      ratio: (cutMs / wholeMs).toFixed(2),
      'longest step ms': median(longest).toFixed(1),
    };
  });
  console.table(rows);
}

async function floats(): Promise<void> {
  const [count, dimensions] = [256, 1024];
  const vectors = Float32Array.from({ length: count * dimensions }, () => (Math.random() - 0.5) / 16);
  const stringified = () =>
    JSON.stringify({
      object: 'list',
      data: Array.from({ length: count }, (_, index) => ({
        object: 'embedding',
        index,
        embedding: Array.from(vectors.subarray(index * dimensions, (index + 1) * dimensions)),
      })),
      model: 'm',
      usage: { prompt_tokens: 1, total_tokens: 1 },
    });
  const [byHand, platform]: [number[], number[]] = [[], []];
  let bytes = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    platform.push(timed(() => Buffer.from(stringified())));
    const start = performance.now();
    const body = await writeEmbeddings({ vectors, dimensions, model: 'm', promptTokens: 1, format: 'float' });
    byHand.push(performance.now() - start);
    bytes = body.length;
  }
  console.table([
    {
      '256 vectors of 1024': 'JSON.stringify',
      ms: median(platform).toFixed(1),
      MB: (Buffer.byteLength(stringified()) / 1e6).toFixed(2),
    },
    { '256 vectors of 1024': 'float text', ms: median(byHand).toFixed(1), MB: (bytes / 1e6).toFixed(2) },
  ]);
}

const SMALL_BODY = JSON.stringify({ model: 'm', input: 'A short text to embed, as most are.' });
const REQUEST = `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${SMALL_BODY.length}\r\n\r\n${SMALL_BODY}`;
const LIMIT_BYTES = 33_554_432;
const REQUESTS = 10_000;

/** Processor time per sequential request on one connection. The client's share is the same for every server. */
async function microsecondsOf(server: FastifyInstance): Promise<number> {
  server.post('/', async (request) => request.body);
  const { port, hostname } = new URL(await server.listen({ port: 0, host: '127.0.0.1' }));
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  const send = (count: number) =>
    new Promise<void>((resolve) => {
      let left = count;
      const next = () => {
        left -= 1;
        if (left < 0) {
          socket.off('data', next);
          resolve();
        } else socket.write(REQUEST);
      };
      socket.on('data', next);
      next();
    });
  await send(REQUESTS / 2);
  const before = process.cpuUsage();
  await send(REQUESTS);
  const { user, system } = process.cpuUsage(before);
  socket.destroy();
  await server.close();
  return (user + system) / REQUESTS;
}

function withReader(server: FastifyInstance): FastifyInstance {
  server.addContentTypeParser('application/json', jsonBodyReader(LIMIT_BYTES));
  return server;
}
const SERVERS: Record<string, () => FastifyInstance> = {
  "Fastify's own parser": () => Fastify(),
  'our reader on the stream': () => withReader(Fastify()),
  'our reader on the whole message': () => withReader(Fastify({ http: { IncomingMessage: WholeBodyMessage } })),
};

async function small(): Promise<void> {
  const found = Object.fromEntries(Object.keys(SERVERS).map((name) => [name, [] as number[]]));
  for (let round = 0; round < 5; round += 1) {
    for (const [name, create] of Object.entries(SERVERS)) found[name]?.push(await microsecondsOf(create()));
  }
  const rows = Object.entries(found).map(([name, times]) => ({
    'small body': name,
    'µs each': median(times).toFixed(1),
  }));
  console.table(rows);
}

const PARTS: Record<string, () => void | Promise<void>> = { slices, floats, small };
const wanted = process.argv.slice(2);
printConditions('Bodies');
for (const [name, run] of Object.entries(PARTS)) if (wanted.length === 0 || wanted.includes(name)) await run();
