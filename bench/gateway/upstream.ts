/** An upstream that costs next to nothing: one embedding of 384 dimensions, always the same bytes. */
import { createServer } from 'node:http';

const vector = Buffer.from(new Float32Array(384).map((_, index) => Math.sin(index) / 14).buffer).toString('base64');
const answer = Buffer.from(
  JSON.stringify({
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: vector }],
    model: 'fake',
    usage: { prompt_tokens: 8, total_tokens: 8 },
  }),
);

const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.length });
    response.end(answer);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(`http://127.0.0.1:${address.port}`);
});
process.on('SIGTERM', () => process.exit(0));
