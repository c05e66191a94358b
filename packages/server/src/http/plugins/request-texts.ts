import plugin from 'fastify-plugin';
import { addToAnswer, keepsText } from '../request/request-text.ts';

/** Collects the answers of accounts that keep them. Streams do so themselves, see `answer/event-stream.ts`. */
export const requestTexts = plugin(async (server) => {
  server.addHook('onSend', (request, reply, payload, done) => {
    if (keepsText(request) && reply.statusCode < 400 && (typeof payload === 'string' || Buffer.isBuffer(payload))) {
      addToAnswer(request, String(reply.getHeader('content-type') ?? ''), payload.toString());
    }
    done(null, payload);
  });
});
