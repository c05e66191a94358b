/** The floor of the runtime: node:http passes the bytes of the answer on as they come. */
import { createServer, request } from 'node:http';

const upstream = process.env.UPSTREAM as string;
const server = createServer((asked, answer) => {
  const { host: _, ...headers } = asked.headers;
  const passed = request(upstream + asked.url, { method: asked.method, headers }, (received) => {
    answer.writeHead(received.statusCode ?? 502, received.headers);
    received.pipe(answer);
  });
  passed.once('error', () => answer.destroy());
  answer.once('close', () => passed.destroy());
  asked.pipe(passed);
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${(server.address() as { port: number }).port}`));
process.once('SIGTERM', () => process.exit(0));
