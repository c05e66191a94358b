/** A very cheap upstream: always returns the same bytes, one embedding of 384 dimensions, with minimal HTTP. */
import { createServer } from 'node:net';
import { messageBytes } from '../raw-http.ts';

const vector = Buffer.from(new Float32Array(384).map((_, index) => Math.sin(index) / 14).buffer).toString('base64');
const body = JSON.stringify({
  object: 'list',
  data: [{ object: 'embedding', index: 0, embedding: vector }],
  model: 'fake',
  usage: { prompt_tokens: 8, total_tokens: 8 },
});
const answer = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
);

const server = createServer({ noDelay: true }, (socket) => {
  let text = '';
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    for (let bytes = messageBytes(text); bytes !== undefined && bytes <= text.length; bytes = messageBytes(text)) {
      text = text.slice(bytes);
      socket.write(answer);
    }
  });
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(`http://127.0.0.1:${address.port}`);
});
process.on('SIGTERM', () => process.exit(0));
