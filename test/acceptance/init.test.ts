import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { postgresMissing } from '../fixtures/postgres-server.ts';
import { redisMissing, redisUrl } from '../fixtures/redis-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { baobab } from './command.ts';
import { startServer } from './start-server.ts';

const missing = postgresMissing ?? redisMissing;

describe('init', () => {
  let folder: string;
  let file: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'baobab-init-'));
    file = join(folder, 'baobab.yaml');
    return () => rm(folder, { recursive: true });
  });
  const init = async (...args: string[]) => {
    const { exitCode, stderr } = await baobab(folder, ['init', file, ...args]);
    expect(exitCode, stderr).toBe(0);
  };
  /** The key of the settings counts, not that of other tests. */
  const serve = (env: Record<string, string> = {}) =>
    startServer({ args: ['--config', file], env: { BAOBAB_FIRST_KEY: '', ...env } });
  const secret = async (name: string) => (await readFile(join(folder, 'secrets', name), 'utf8')).trim();
  async function statusOf(address: string, key: string, path: string): Promise<number> {
    const { status } = await fetch(`${address}${path}`, { headers: { authorization: `Bearer ${key}` } });
    return status;
  }

  it('writes settings with which a laptop serves', async () => {
    await init();
    await using server = await serve();
    expect(server.output()).toContain('export BAOBAB_API_KEY=bao_sk_');
    expect((await fetch(`${server.address}/readyz`)).status).toBe(200);
  });

  it('writes settings with which a server serves, and its first key', async () => {
    await init('--kind', 'server');
    await using server = await serve();
    expect(await statusOf(server.address, await secret('first-key'), '/v1/keys')).toBe(200);
  });

  it.skipIf(missing !== undefined)(
    'writes settings with which a cluster serves once the addresses are in their files',
    async () => {
      const redis = await redisUrl();
      onTestFinished(() => redis.stop());
      await init('--kind', 'cluster');
      await writeFile(join(folder, 'secrets/store'), await (await sharedPostgres()).createDatabase());
      await writeFile(join(folder, 'secrets/counters'), redis.url);
      // While S3 is away, a server starts degraded.
      const credentials = { AWS_ACCESS_KEY_ID: 'none', AWS_SECRET_ACCESS_KEY: 'none', AWS_REGION: 'us-east-1' };
      await using server = await serve({ ...credentials, BAOBAB_BLOBS_ENDPOINT: 'http://127.0.0.1:1' });
      expect(await statusOf(server.address, await secret('first-key'), '/v1/admin/servers')).toBe(200);
    },
  );
});
