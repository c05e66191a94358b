/** An upstream that answers every chat request after a fixed time, set by DELAY_MS in the environment. */
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

const server = createServer((request, answer) => {
  request.resume();
  request.once('end', () =>
    setTimeout(() => {
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
