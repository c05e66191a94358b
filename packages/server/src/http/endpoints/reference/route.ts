import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import Fastify, { type FastifyPluginAsync } from 'fastify';
import { notFound } from '../../answer/error-answer.ts';
import { STYLED_PAGE_HEADERS, sendStaticFile } from '../../answer/static-file.ts';

/** The colours of the console, with enough contrast for small text. */
const STYLES = `
.light-mode {
  --scalar-background-1: #fffdfa; --scalar-background-2: #f7f4ef; --scalar-background-3: #f1ece4; --scalar-background-accent: #e3efe2;
  --scalar-color-1: #29221c; --scalar-color-2: #665a4f; --scalar-color-3: #665a4f; --scalar-color-accent: #2d6a3a;
  --scalar-border-color: #e4dcd0; --scalar-color-green: #2d6a3a; --scalar-color-blue: #35527c; --scalar-color-red: #ac2a20;
  --scalar-color-orange: #855300; --scalar-color-yellow: #855300; --scalar-color-purple: #5f57a8;
}
.dark-mode {
  --scalar-background-1: #1c1814; --scalar-background-2: #15120f; --scalar-background-3: #2a241e; --scalar-background-accent: #22331f;
  --scalar-color-1: #efe8de; --scalar-color-2: #b0a396; --scalar-color-3: #b0a396; --scalar-color-accent: #86c993;
  --scalar-border-color: #352d26; --scalar-color-green: #86c993; --scalar-color-blue: #a9c2e6; --scalar-color-red: #f39486;
  --scalar-color-orange: #e9b45f; --scalar-color-yellow: #e9b45f; --scalar-color-purple: #a79ff0;
}
`;

/**
 * Runs in the browser before the viewer: shows the document, and sends the requests of people who are signed in with the token of their session
 * instead of an empty key.
 */
const START_SCRIPT = `const send = window.fetch.bind(window);
const session = send('/v1/sessions/current')
  .then((answer) => (answer.ok ? answer.json() : undefined))
  .catch(() => undefined);

window.fetch = async (input, init) => {
  const request = new Request(input, init);
  const { origin, pathname } = new URL(request.url);
  if (origin !== location.origin || !pathname.startsWith('/v1/')) return send(request);
  const token = (await session)?.csrf_token;
  if (token && /^bearer *$/i.test(request.headers.get('authorization') ?? 'bearer')) {
    request.headers.delete('authorization');
    request.headers.set('x-baobab-csrf', token);
  }
  return send(request);
};

window.addEventListener('load', () => {
  Scalar.createApiReference('#reference', {
    url: '/openapi.json',
    servers: [{ url: location.origin }],
    withDefaultFonts: false,
    hideClientButton: true,
    telemetry: false,
    agent: { disabled: true },
    mcp: { disabled: true },
    showDeveloperTools: 'never',
    authentication: { preferredSecurityScheme: 'key' },
    hideModels: true,
    theme: 'none',
    customCss: ${JSON.stringify(STYLES)},
  });
  // The viewer leaves some buttons without a name, gives others a name without their text, and has lists that only a mouse can scroll.
  const repair = () => {
    for (const button of document.querySelectorAll('button')) {
      if (button.classList.contains('group/copy-button')) button.ariaLabel ||= 'Copy';
      if (button.classList.contains('show-more')) button.removeAttribute('aria-label');
    }
    for (const list of document.querySelectorAll('ul.endpoints')) list.tabIndex = 0;
  };
  new MutationObserver(repair).observe(document.body, { childList: true, subtree: true });
});
`;

const compressBrotli = promisify(zlib.brotliCompress);
const compressGzip = promisify(zlib.gzip);
function scriptOf(name: string, content: Buffer) {
  const tag = createHash('sha256').update(content).digest('hex').slice(0, 12);
  return { name: `${name}-${tag}.js`, content, tag };
}
/** Takes a tenth of a second; the best quality takes ten seconds and saves a tenth. */
const QUALITY = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } };

/** Scalar's viewer for OpenAPI documents. Its package gives the script only to a Fastify server. */
async function readViewer() {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const server = Fastify();
  await server.register(scalar, { routePrefix: '/docs', configuration: { url: '/openapi.json' } });
  const { rawPayload: content } = await server.inject('/docs/js/scalar.js');
  await server.close();
  const [brotli, gzip] = await Promise.all([compressBrotli(content, QUALITY), compressGzip(content)]);
  return { ...scriptOf('viewer', content), brotli, gzip };
}

const START = scriptOf('start', Buffer.from(START_SCRIPT));

const page = (viewerName: string): string => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Baobab API</title>
  </head>
  <body>
    <noscript>This page needs JavaScript. <a href="/openapi.json">openapi.json</a> has the same content.</noscript>
    <div id="reference"></div>
    <script src="/docs/assets/${START.name}"></script>
    <script src="/docs/assets/${viewerName}"></script>
  </body>
</html>
`;

/** The API reference: a viewer for /openapi.json with requests that can be tried. */
export const referenceRoutes: FastifyPluginAsync = async (server) => {
  let script: ReturnType<typeof readViewer> | undefined;
  /** Read on first use: few servers need it. */
  const viewer = () => {
    script ??= readViewer();
    return script;
  };
  let document: string | undefined;

  server.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) => {
    document ??= JSON.stringify(server.swagger());
    return reply.type('application/json; charset=utf-8').send(document);
  });

  server.get('/docs', { schema: { hide: true } }, async (_request, reply) => {
    const { name } = await viewer();
    return reply
      .headers(STYLED_PAGE_HEADERS)
      .header('cache-control', 'no-cache')
      .type('text/html; charset=utf-8')
      .send(page(name));
  });

  server.get<{ Params: { name: string } }>('/docs/assets/:name', { schema: { hide: true } }, async (request, reply) => {
    const scripts = [START, await viewer()];
    const script = scripts.find(({ name }) => name === request.params.name);
    return script === undefined
      ? notFound(request, reply)
      : sendStaticFile(request, reply, `assets/${script.name}`, script);
  });
};
