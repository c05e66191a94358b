import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import Fastify from 'fastify';

export interface ViewerScript {
  content: Buffer;
  brotli: Buffer;
  gzip: Buffer;
  /** Hash of the content, for its name. */
  hash: string;
}

const compressBrotli = promisify(brotliCompress);
const compressGzip = promisify(gzip);
/** Takes a tenth of a second; the best quality takes ten seconds and saves a tenth. */
const QUALITY = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } };

/** Scalar's viewer for OpenAPI documents. Its package gives the script only to a Fastify server. */
async function readScript(): Promise<ViewerScript> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const server = Fastify();
  await server.register(scalar, { routePrefix: '/docs', configuration: { url: '/openapi.json' } });
  const { rawPayload: content } = await server.inject('/docs/js/scalar.js');
  await server.close();
  const [brotli, zipped] = await Promise.all([compressBrotli(content, QUALITY), compressGzip(content)]);
  return { content, brotli, gzip: zipped, hash: createHash('sha256').update(content).digest('hex').slice(0, 12) };
}

/** Read on first use: few servers need it. */
export function createViewerScript(): () => Promise<ViewerScript> {
  let script: Promise<ViewerScript> | undefined;
  return () => {
    script ??= readScript();
    return script;
  };
}
