/**
 * An upstream that answers every chat request after a fixed time, set by DELAY_MS in the environment, and one for a stream with 400 kB of
 * events.
 */
import { createServer } from 'node:http';

const delayMs = Number(process.env.DELAY_MS ?? 100);
const body = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1_760_000_000,
  model: 'fake',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Nairobi.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 12, completion_tokens: 3, total_tokens: 15 },
});

const PIECES = 2_000;
const piece = (delta: object, finishReason: string | null = null) =>
  `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_760_000_000, model: 'fake', choices: [{ index: 0, delta, finish_reason: finishReason }] })}\n\n`;
const stream = [
  ...Array.from({ length: PIECES }, () => piece({ content: 'word '.repeat(8) })),
  piece({}, 'stop'),
  'data: [DONE]\n\n',
].join('');

const server = createServer((request, answer) => {
  let asked = '';
  request.on('data', (part: Buffer) => {
    // The field stands at the end of the body.
    asked = (asked + part.toString('latin1')).slice(-200);
  });
  request.once('end', () =>
    setTimeout(() => {
      if (/"stream":true/.test(asked)) {
        answer.setHeader('content-type', 'text/event-stream');
        answer.end(stream);
        return;
      }
      answer.setHeader('content-type', 'application/json');
      answer.end(request.method === 'POST' ? body : '{"object":"list","data":[{"id":"fake","object":"model"}]}');
    }, delayMs),
  );
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(`http://127.0.0.1:${address.port}`);
});
process.on('SIGTERM', () => process.exit(0));
