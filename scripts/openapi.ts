import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pino from 'pino';
import { VERSION } from '../packages/server/src/compose/version.ts';
import { createServer, type ServerDependencies } from '../packages/server/src/http/server.ts';
import { createMetrics } from '../packages/server/src/metrics/metrics.ts';

/** Routes keep their services or subscribe to them, so stand-ins are enough to describe the API. */
const nothing = new Proxy(() => nothing, {
  get(_, name) {
    // With a `then` it would be awaited forever.
    if (name === 'then') return undefined;
    // Some routes compute with their settings.
    return name === Symbol.toPrimitive ? () => 1 : nothing;
  },
}) as never;
const dependencies = {
  settings: {
    bodyLimitBytes: 1,
    headerLimitBytes: 1,
    headersTimeoutMs: 1,
    requestTimeoutMs: 1,
    keepAliveTimeoutMs: 1,
    writeTimeoutMs: 1,
    publicMetrics: false,
    trustedProxies: [],
    corsOrigins: [],
  },
  version: VERSION,
  logger: pino({ level: 'silent' }),
  metrics: createMetrics(),
} satisfies Partial<ServerDependencies>;

/** Settings of Fastify itself, which it looks for among the services. */
const OF_FASTIFY = ['prefix', 'logLevel', 'logSerializers'];

const server = await createServer(
  new Proxy(dependencies, {
    get: (target, name) => Reflect.get(target, name) ?? (OF_FASTIFY.includes(String(name)) ? undefined : nothing),
  }) as unknown as ServerDependencies,
);
await server.ready();
const path = process.argv[2] ?? join(import.meta.dirname, '../docs/openapi.json');
await writeFile(path, `${JSON.stringify(server.swagger(), null, 2)}\n`);
await server.close();
process.stdout.write(`wrote ${path}\n`);
