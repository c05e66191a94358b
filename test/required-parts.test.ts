import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const FIXTURE = join(import.meta.dirname, 'fixtures/redis-server.ts');

/** Loads what the suites over Redis load, on a machine without it. */
const load = (required: string) =>
  promisify(execFile)(process.execPath, ['--eval', `import(${JSON.stringify(FIXTURE)})`], {
    env: { PATH: '', REQUIRED_TEST_PARTS: required },
  });

it('suites without a part are skipped, and fail where the part is required', async () => {
  await expect(load('')).resolves.toBeDefined();
  await expect(load('postgres,s3')).resolves.toBeDefined();
  await expect(load('s3,redis')).rejects.toThrow('redis is required here. Redis suites are skipped');
  await expect(load('rediss')).rejects.toThrow('REQUIRED_TEST_PARTS has rediss');
});
