/**
 * A very cheap engine: the same small chat answer for every request, as JSON or as a stream of words. Several of these processes may
 * listen on one port.
 *
 *   [ANSWER_MS=0] [STREAM_WORDS=9] [WORD_INTERVAL_MS=250] node bench/replicas/upstream.ts [port]
 */
import { createServer, type Socket } from 'node:net';
import { messageBytes } from '../raw-http.ts';
import { FIRST_WORD, STREAM_WORDS, WORD_INTERVAL_MS } from './chat.ts';

const head = { id: 'chatcmpl-bench', created: 1_760_000_000, model: 'bench' };
const usage = { prompt_tokens: 12, completion_tokens: 9, total_tokens: 21 };
const message = { role: 'assistant', content: 'A gateway passes requests on and counts what they cost.' };
const body = JSON.stringify({
  ...head,
  object: 'chat.completion',
  choices: [{ index: 0, message, finish_reason: 'stop' }],
  usage,
});
const json = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
);

const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const event = (rest: object) =>
  chunk(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...rest })}\n\n`);
const word = (content: string) =>
  event({ choices: [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }] });
const first = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n${word(FIRST_WORD)}`,
);
const next = Buffer.from(word(' word'));
const last = Buffer.from(
  event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }) +
    event({ choices: [], usage }) +
    chunk('data: [DONE]\n\n') +
    chunk(''),
);

/** How long it takes to write an answer in one piece. */
const answerMs = Number(process.env.ANSWER_MS ?? 0);
const words = Number(process.env.STREAM_WORDS ?? STREAM_WORDS);
const intervalMs = Number(process.env.WORD_INTERVAL_MS ?? WORD_INTERVAL_MS);

function answer(socket: Socket): void {
  if (answerMs === 0) socket.write(json);
  else setTimeout(() => socket.write(json), answerMs);
}

function stream(socket: Socket): void {
  let left = words - 1;
  socket.write(first);
  const timer = setInterval(() => {
    left -= 1;
    if (left >= 0 && !socket.destroyed) socket.write(next);
    else {
      clearInterval(timer);
      if (!socket.destroyed) socket.write(last);
    }
  }, intervalMs);
}

const server = createServer({ noDelay: true }, (socket) => {
  let text = '';
  socket.on('error', () => socket.destroy());
  socket.on('data', (data) => {
    text += data.toString('latin1');
    for (let bytes = messageBytes(text); bytes !== undefined && bytes <= text.length; bytes = messageBytes(text)) {
      const request = text.slice(0, bytes);
      text = text.slice(bytes);
      if (/"stream": ?true/.test(request)) stream(socket);
      else answer(socket);
    }
  });
});
server.listen(
  { host: '127.0.0.1', port: Number(process.argv[2] ?? 0), reusePort: process.argv[2] !== undefined },
  () => {
    const address = server.address();
    if (address !== null && typeof address === 'object') console.log(`http://127.0.0.1:${address.port}`);
  },
);
process.on('SIGTERM', () => process.exit(0));
