/**
 * Fuzzes a server of its own with the OpenAPI document. Needs schemathesis 4: `pip install schemathesis`.
 *
 *   npm run fuzz [-- --examples 50] [-- --only '/v1/usage'] [-- --seed 1]
 *
 * Or gives damaged files to the decoders of audio, images and PDFs. A finding is written to a file; the same seed finds it again.
 *
 *   npm run fuzz -- decoders [--seconds 600] [--seed 1] [--only mp3,pdf]
 */
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { stringify } from 'yaml';
import { startServer } from '../test/acceptance/start-server.ts';
import { startFakeUpstream } from '../test/fixtures/fake-upstream.ts';
import { fuzzDecoders } from '../test/fuzz/decoders.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    examples: { type: 'string', default: '50' },
    /** A regular expression for paths, or kinds of files. */
    only: { type: 'string' },
    schemathesis: { type: 'string', default: 'schemathesis' },
    seconds: { type: 'string', default: '600' },
    seed: { type: 'string', default: String(randomInt(2 ** 31)) },
  },
});
const FOLDER = join(import.meta.dirname, '../test/fuzz');

/**
 * Each on a server of its own. Keys are changed, rotated and revoked, in the end also the one that is used, and requests get a 403 from
 * then on. So endpoints that do this are apart from all others.
 */
const KEY_PARTS = [
  '^/v1/admin/accounts',
  ...['^/v1/admin/keys', '^/v1/keys'].flatMap((path) => [
    `${path}$`,
    `${path}/[^/]+$`,
    `${path}/[^/]+/revoke$`,
    `${path}/[^/]+/rotate$`,
  ]),
  '^/v1/sessions',
];
const PARTS =
  values.only === undefined
    ? [['--exclude-path-regex', KEY_PARTS.join('|')], ...KEY_PARTS.map((part) => ['--include-path-regex', part])]
    : [['--include-path-regex', values.only]];

await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-fuzz-'));

async function fuzz(address: string, key: string, filter: readonly string[]): Promise<number> {
  const child = spawn(
    values.schemathesis,
    [
      ...['--config-file', join(FOLDER, 'schemathesis.toml'), 'run', `${address}/openapi.json`],
      ...['-H', `Authorization: Bearer ${key}`],
      ...['--phases', 'examples,coverage,fuzzing', '--max-examples', values.examples, '--seed', values.seed],
      ...filter,
    ],
    {
      stdio: 'inherit',
      // It keeps what it finds in its working directory.
      cwd: directory.path,
      env: { ...process.env, SCHEMATHESIS_HOOKS: join(FOLDER, 'hooks.py') },
    },
  );
  const failed = once(child, 'error').then(([error]) => {
    throw new Error(`schemathesis cannot be started (pip install schemathesis): ${(error as Error).message}`);
  });
  const [code] = (await Promise.race([once(child, 'exit'), failed])) as [number | null];
  return code ?? 1;
}

async function fuzzApi(): Promise<number> {
  const upstream = await startFakeUpstream('vllm', { contextLength: 32_768 });
  const upstreams = [{ model: 'qwen/qwen2.5-7b-instruct', url: upstream.url, kind: 'vllm' }];

  let worst = 0;
  for (const filter of PARTS) {
    await using data = await mkdtempDisposable(join(tmpdir(), 'baobab-fuzz-data-'));
    await writeFile(join(data.path, 'baobab.yaml'), stringify({ upstreams }));
    await using server = await startServer({ dataDir: data.path, env: { BAOBAB_LOG_LEVEL: 'error' } });
    worst = Math.max(worst, await fuzz(server.address, server.apiKey, filter));
  }
  await upstream.close();
  return worst;
}

const MAX_GROWTH_BYTES = 64 * 1024 * 1024;

async function fuzzAllDecoders(): Promise<number> {
  const seed = Number(values.seed);
  console.log(`seed ${seed}`);
  const { counts, findings, grownBytes } = await fuzzDecoders({
    seed,
    seconds: Number(values.seconds),
    roundsPerKind: 1,
    only: values.only,
    async onFinding({ kind, number, problem, file }) {
      const path = join(tmpdir(), `baobab-finding-${kind}-${seed}-${number}`);
      await writeFile(path, file);
      console.error(`${kind}, file ${number}: ${problem}. The file: ${path}`);
    },
  });
  console.table(counts);
  console.log(`${findings} findings; memory grew by ${Math.round(grownBytes / 1024)} kB`);
  return findings === 0 && grownBytes < MAX_GROWTH_BYTES ? 0 : 1;
}

process.exitCode = await (positionals[0] === 'decoders' ? fuzzAllDecoders() : fuzzApi());
