import plugin from 'fastify-plugin';
import { sendError } from '../answer/error-answer.ts';

export const errorHandler = plugin(async (server) => {
  server.setErrorHandler((error, request, reply) => sendError(error, request, reply));
});
