import type { StaticFiles } from '@baobab/core/ports/static-files.ts';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { notFound } from '../../answer/error-answer.ts';
import { ASSETS, PAGE_HEADERS, STYLED_PAGE_HEADERS, sendStaticFile } from '../../answer/static-file.ts';

const HTML = 'text/html; charset=utf-8';
const NOT_BUILT = `<!doctype html>
<html lang="en">
  <head><meta charset="utf-8"><title>Baobab documentation</title></head>
  <body>
    <p>This server runs from a checkout whose documentation was not built: <code>npm run docs</code> in the checkout builds it.
    The pages are in its folder <code>docs</code> too. <a href="/docs">The API reference</a> is always here.</p>
  </body>
</html>
`;

/** The documentation as a site: the pages of docs/, which `npm run docs` builds. */
export const guideRoutes: FastifyPluginAsync<{ guide: StaticFiles }> = async (server, { guide }) => {
  const hide = { schema: { hide: true } };

  const send = async (request: FastifyRequest, reply: FastifyReply, address: string) => {
    const files = await guide.files();
    if (files.size === 0) {
      return reply.status(404).headers(PAGE_HEADERS).type(HTML).send(NOT_BUILT);
    }
    // Addresses of pages have no ending.
    const path = [address === '' ? 'index.html' : address, `${address}.html`].find((each) => files.has(each));
    const file = path === undefined ? undefined : files.get(path);
    if (path === undefined || file === undefined) {
      const page = files.get('404.html');
      if (page === undefined || address.startsWith(ASSETS)) return notFound(request, reply);
      return reply.status(404).headers(STYLED_PAGE_HEADERS).type(HTML).send(page.content);
    }
    return sendStaticFile(request, reply, path, file, STYLED_PAGE_HEADERS);
  };
  // Paths in the pages are relative to the folder.
  server.get('/docs/guide', hide, async (_request, reply) => reply.redirect('/docs/guide/'));
  server.get<{ Params: { '*': string } }>('/docs/guide/*', hide, (request, reply) =>
    send(request, reply, request.params['*']),
  );
};
