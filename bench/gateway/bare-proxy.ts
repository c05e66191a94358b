/** A plain proxy: Fastify with its own proxy plugin, configured with the upstream only. */
import httpProxy from '@fastify/http-proxy';
import Fastify from 'fastify';

const server = Fastify();
await server.register(httpProxy, { upstream: process.env.UPSTREAM as string });
console.log(await server.listen({ host: '127.0.0.1', port: 0 }));
process.on('SIGTERM', () => process.exit(0));
