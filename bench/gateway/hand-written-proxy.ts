/** A minimal proxy for small JSON: Fastify parses the body, undici forwards it, the answer is returned in one piece. */
import Fastify from 'fastify';
import { Pool } from 'undici';

const pool = new Pool(process.env.UPSTREAM as string, { connections: 64 });
const server = Fastify();
server.post('/v1/embeddings', async (request, reply) => {
  const answer = await pool.request({
    path: '/v1/embeddings',
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request.body),
  });
  return reply
    .status(answer.statusCode)
    .type('application/json')
    .send(await answer.body.json());
});
console.log(await server.listen({ host: '127.0.0.1', port: 0 }));
process.on('SIGTERM', () => process.exit(0));
