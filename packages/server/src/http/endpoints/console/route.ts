import type { StaticFiles } from '@baobab/core/ports/static-files.ts';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { notFound } from '../../answer/error-answer.ts';
import { ASSETS, sendStaticFile } from '../../answer/static-file.ts';

/** The console: its page for every address below /console, and the files that it loads. */
export const consoleRoutes: FastifyPluginAsync<{ consoleBundle: StaticFiles }> = async (server, { consoleBundle }) => {
  const hide = { schema: { hide: true } };

  server.get('/', hide, async (request, reply) => {
    // Claude Code asks first whether a server is here.
    if (request.method === 'HEAD') return reply.send();
    return /\btext\/html\b/.test(request.headers.accept ?? '') ? reply.redirect('/console') : notFound(request, reply);
  });

  const send = async (request: FastifyRequest, reply: FastifyReply, path: string) => {
    const files = await consoleBundle.files();
    const file = files.get(path);
    return file === undefined ? notFound(request, reply) : sendStaticFile(request, reply, path, file);
  };
  server.get('/console', hide, (request, reply) => send(request, reply, 'index.html'));
  server.get<{ Params: { '*': string } }>('/console/*', hide, (request, reply) => {
    const path = request.params['*'];
    // Other addresses are views of the page.
    return send(request, reply, path.startsWith(ASSETS) ? path : 'index.html');
  });
};
