import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError, loadConfig } from './load.ts';
import { isSecret } from './secret-files.ts';
import { secretsOf } from './secrets.ts';
import { parseText, SETTINGS } from './settings.ts';

let directory: string;
let file: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'baobab-config-'));
  file = join(directory, 'baobab.yaml');
});
beforeEach(() => rmSync(file, { force: true }));
afterAll(() => rmSync(directory, { recursive: true }));

interface Given {
  yaml?: string;
  env?: Record<string, string>;
  args?: string[];
}

function load({ yaml, env = {}, args = [] }: Given) {
  if (yaml !== undefined) writeFileSync(file, yaml);
  return loadConfig({ args, env, workingDirectory: directory });
}

function problems(given: Given): string[] {
  try {
    load(given);
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n');
    throw error;
  }
  return [];
}

describe('where a setting comes from', () => {
  it('serves on 127.0.0.1:8080 without any', () => {
    const { config, file: read } = load({});
    expect(config).toMatchObject({ host: '127.0.0.1', port: 8080, region: 'local' });
    expect(read).toBeUndefined();
  });

  it('file, then environment, then flag', () => {
    const yaml = 'port: 1\nregion: from-file\nhost: 0.0.0.0\n';
    const env = { BAOBAB_PORT: '2', BAOBAB_REGION: 'from-env' };
    const { config, file: read } = load({ yaml, env, args: ['--port', '3'] });
    expect(config).toMatchObject({ port: 3, region: 'from-env', host: '0.0.0.0' });
    expect(read).toBe(file);
  });

  it('every one has a key, a variable and a flag, made by one rule', () => {
    expect(SETTINGS.find(({ key }) => key === 'files.max_bytes')).toMatchObject({
      variable: 'BAOBAB_FILES_MAX_BYTES',
      flag: '--files-max-bytes',
    });
    for (const { path, key, variable, flag } of SETTINGS) {
      expect(variable).toBe(`BAOBAB_${key.replaceAll('.', '_').toUpperCase()}`);
      expect(flag).toBe(`--${key.replace(/[._]/g, '-')}`);
      expect(path.length).toBe(key.split('.').length);
    }
    expect(new Set(SETTINGS.map(({ variable }) => variable)).size).toBe(SETTINGS.length);
    expect(new Set(SETTINGS.map(({ flag }) => flag)).size).toBe(SETTINGS.length);
  });

  it('has the fixed names of the environment', () => {
    const variables = SETTINGS.map(({ variable }) => variable);
    for (const name of ['HOST', 'PORT', 'DATA_DIR', 'MODELS_DIR', 'FIRST_KEY', 'REGION']) {
      expect(variables).toContain(`BAOBAB_${name}`);
    }
  });

  it('takes every setting from its variable and from its flag', () => {
    for (const { schema, path, variable, flag } of SETTINGS) {
      if (isSecret(schema)) continue;
      const { type, minimum, enum: choices } = schema as { type?: string; minimum?: number; enum?: string[] };
      const text =
        { blobs: 's3://bucket/prefix', blobsEndpoint: 'http://127.0.0.1:9', workers: '1' }[path.join('.')] ??
        choices?.at(-1) ??
        (type === 'integer'
          ? String(minimum ?? 1)
          : type === 'boolean'
            ? 'true'
            : type === 'array'
              ? '[]'
              : ['publicUrl', 'hfEndpoint', 'mavenRepository'].includes(path.at(-1) ?? '')
                ? 'http://127.0.0.1:9'
                : 'a-0123456789-long-value');
      const addresses: Record<string, string> = {
        storeFile: 'postgres://127.0.0.1/baobab',
        countersFile: 'redis://127.0.0.1',
      };
      const content = addresses[path.at(-1) ?? ''] ?? text;
      if (path.at(-1)?.endsWith('File')) writeFileSync(join(directory, text), content);
      const expected = /(Dir|File)$/.test(path.at(-1) ?? '') ? join(directory, text) : parseText(schema, text);
      const short = { BAOBAB_HTTP_HEADERS_TIMEOUT_MS: '100', BAOBAB_BLOBS: 's3://bucket' };
      const read = (config: unknown) =>
        path.reduce<unknown>((place, name) => (place as Record<string, unknown>)[name], config);
      const fromVariable = load({ env: { ...short, [variable]: text } }).config;
      const fromFlag = load({ env: short, args: [`${flag}=${text}`] }).config;
      expect(read(fromVariable), variable).toEqual(expected);
      expect(read(fromFlag), flag).toEqual(expected);
    }
  });

  it('reads secrets from the environment and from files, and never from flags', () => {
    const secrets = SETTINGS.filter(({ schema }) => isSecret(schema)).toReversed();
    expect(secrets.map(({ key }) => key)).toEqual([
      'models.hf_token',
      'metrics.token',
      'first_key',
      'counters',
      'store',
    ]);
    const addresses: Record<string, string> = {
      store: 'postgres://user:secret@127.0.0.1/baobab',
      counters: 'redis://:secret@127.0.0.1',
    };
    for (const { path, key, variable, flag } of secrets) {
      const value = addresses[key] ?? 'bao-0123456789-secret';
      writeFileSync(join(directory, 'key.txt'), ` ${value}\n`);
      const read = (config: unknown) =>
        path.reduce<unknown>((place, name) => (place as Record<string, unknown>)[name], config);
      expect(read(load({ env: { [variable]: value } }).config), variable).toBe(value);
      expect(read(load({ env: { [`${variable}_FILE`]: 'key.txt' } }).config), variable).toBe(value);
      expect(read(load({ args: [`${flag}-file`, 'key.txt'] }).config), flag).toBe(value);
      const [problem, ...more] = problems({ args: [flag, value] });
      expect(problem).toBe(`${flag}: other users can see secrets on the command line; use ${flag}-file or ${variable}`);
      expect(more).toEqual([]);
    }
    writeFileSync(join(directory, 'key.txt'), 'bao-0123456789-secret');
    const yaml = 'upstreams:\n  - { model: a/b, url: "http://127.0.0.1:1/v1", api_key_file: key.txt }\n';
    expect(load({ yaml }).config.upstreams[0]?.apiKey).toBe('bao-0123456789-secret');
    const upstreams = [{ model: 'a/b', url: 'http://127.0.0.1:1/v1', api_key: 'k' }];
    expect(problems({ args: ['--upstreams', JSON.stringify(upstreams)] })[0]).toContain('other users can see secrets');
  });

  it('reads the file named by BAOBAB_CONFIG, and rather the one named by --config', () => {
    writeFileSync(join(directory, 'one.yaml'), 'port: 11\n');
    writeFileSync(join(directory, 'two.yaml'), 'port: 22\n');
    const env = { BAOBAB_CONFIG: 'one.yaml' };
    expect(load({ env }).config.port).toBe(11);
    expect(load({ env, args: ['--config', 'two.yaml'] }).config.port).toBe(22);
  });

  it('returns the arguments that are not settings, in order', () => {
    expect(load({ args: ['create', 'ci', '--port', '1', '--scopes', 'chat', '--json'] }).rest).toEqual([
      'create',
      'ci',
      '--scopes',
      'chat',
      '--json',
    ]);
  });

  it('keeps weights under the data directory by default and makes paths absolute', () => {
    expect(load({ env: { BAOBAB_DATA_DIR: 'd' } }).config).toMatchObject({
      dataDir: join(directory, 'd'),
      modelsDir: join(directory, 'd', 'models'),
    });
    expect(load({ args: ['--models-dir', '/srv/weights'] }).config.modelsDir).toBe('/srv/weights');
  });

  it('takes lists from the environment with commas, and upstreams as JSON in the names of the file', () => {
    expect(load({ env: { BAOBAB_MODELS_WARM: 'a/b, c/d' } }).config.models.warm).toEqual(['a/b', 'c/d']);
    const upstream = { model: 'a/b', url: 'http://127.0.0.1:1/v1', api_key: 'k', max_concurrency: 2 };
    expect(load({ env: { BAOBAB_UPSTREAMS: JSON.stringify([upstream]) } }).config.upstreams).toMatchObject([
      { model: 'a/b', apiKey: 'k', maxConcurrency: 2, kind: 'openai', totalTimeoutMs: 600_000 },
    ]);
  });

  it('takes an empty file and an empty variable for nothing', () => {
    expect(load({ yaml: '# nothing yet\n', env: { BAOBAB_PORT: '' } }).config.port).toBe(8080);
  });
});

describe('what stops the start', () => {
  it('an unknown key, with file, line, key and what is allowed there', () => {
    const [line] = problems({ yaml: 'port: 8080\nlog:\n  levle: debug\n' });
    expect(line).toBe(`${file}:3: log.levle: unknown key; did you mean level? allowed here: level, format`);
  });

  it('a key that is written as messages write it', () => {
    expect(problems({ yaml: 'port: 8080\nfiles.max_bytes: 5\n' })).toEqual([
      expect.stringContaining(
        `${file}:2: files.max_bytes: unknown key; nest it, as in 'files: { max_bytes: … }'; allowed`,
      ),
    ]);
  });

  it.each([
    ['files:\n  retention_days: 99999999', 'files.retention_days: must be a whole number from 1 to 36500'],
    ['requests:\n  retention_days: 36501', 'requests.retention_days: must be a whole number from 0 to 36500'],
    ['http:\n  drain_timeout_ms: 2147483648', 'http.drain_timeout_ms: must be a whole number from 0 to 2147483647'],
    [
      'engines:\n  queue_timeout_seconds: 2592000',
      'engines.queue_timeout_seconds: must be a whole number from 1 to 2000000',
    ],
    ['batches:\n  discount_percent: 101', 'batches.discount_percent: must be a whole number from 0 to 100'],
  ])('refuses a number beyond what dates, timers and prices can hold: %j', (yaml, problem) => {
    expect(problems({ yaml })).toContain(`${file}:2: ${problem}`);
  });

  it('a bad value, with file, line, key and what is allowed', () => {
    expect(problems({ yaml: 'host: 127.0.0.1\nport: http\nlog:\n  level: loud\n' })).toEqual([
      `${file}:2: port: must be a whole number from 0 to 65535`,
      `${file}:4: log.level: must be one of "trace", "debug", "info", "warn", "error", "silent"`,
    ]);
  });

  it('a bad value in the second of two lists, with its own line', () => {
    const yaml = [
      'upstreams:',
      '  - model: a/b',
      '    url: http://127.0.0.1:1/v1',
      '  - model: a/b',
      '    url: http://127.0.0.1:2/v1',
      '    kind: vlm',
    ].join('\n');
    expect(problems({ yaml })).toEqual([
      expect.stringMatching(/baobab\.yaml:6: upstreams\.1\.kind: must be one of "openai", /),
    ]);
  });

  it('an address that is none', () => {
    const yaml =
      'models:\n  hf_endpoint: hub\n  maven_repository: central\nupstreams:\n  - model: a/b\n    url: ftp://127.0.0.1/v1\n';
    expect(problems({ yaml })).toEqual([
      expect.stringMatching(/yaml:2: models\.hf_endpoint: must be an address such as https:/),
      expect.stringMatching(/yaml:3: models\.maven_repository: must be an address such as https:/),
      expect.stringMatching(/yaml:6: upstreams\.0\.url: must be an address such as http:/),
    ]);
    expect(problems({ yaml: 'upstreams: [{ model: a/b, url: 5 }]' })).toHaveLength(1);
  });

  it('a public address with a path', () => {
    expect(problems({ yaml: 'public_url: https://api.example.com' })).toEqual([]);
    for (const url of ['https://api.example.com/baobab', 'api.example.com', 'https://ann@api.example.com']) {
      expect(problems({ yaml: `public_url: ${url}` })).toEqual([
        expect.stringMatching(
          /yaml:1: public_url: must be an address without a path, such as https:\/\/api\.example\.com/,
        ),
      ]);
    }
  });

  it('a user or password in the address of an upstream', () => {
    const upstream = (url: string) => problems({ yaml: `upstreams:\n  - model: a/b\n    url: ${url}\n` });
    expect(upstream('http://ann:pass@127.0.0.1/v1')).toEqual([
      expect.stringMatching(/yaml:3: upstreams\.0\.url: must not contain a user or password; use api_key instead/),
    ]);
    expect(upstream('https://ann@example.org/v1')).toHaveLength(1);
    expect(upstream('https://@example.org/v1')).toHaveLength(1);
  });

  it('a trusted proxy that is not an address', () => {
    expect(problems({ env: { BAOBAB_HTTP_TRUSTED_PROXIES: '10.0.0.0/8,proxy.internal' } })).toEqual([
      expect.stringMatching(/http\.trusted_proxies\.1: must be an IP address or a range such as 10\.0\.0\.0\/8$/),
    ]);
  });

  it('a bad variable or flag, named as it was given', () => {
    expect(problems({ env: { BAOBAB_PORT: '80a' } })).toEqual([
      'BAOBAB_PORT: port: must be a whole number from 0 to 65535',
    ]);
    expect(problems({ args: ['--port=70000'] })).toEqual(['--port: port: must be a whole number from 0 to 65535']);
    expect(problems({ env: { BAOBAB_HTTP_PUBLIC_METRICS: 'yes' } })).toEqual([
      'BAOBAB_HTTP_PUBLIC_METRICS: http.public_metrics: must be a boolean',
    ]);
    const yaml = 'upstreams:\n  - model: a/b\n    url: http://127.0.0.1:1/v1\n';
    const upstreams = JSON.stringify([{ model: 'a/b', url: 'http://127.0.0.1:1/v1', kind: 'vlm' }]);
    expect(problems({ yaml, env: { BAOBAB_UPSTREAMS: upstreams } })).toEqual([
      expect.stringMatching(/^BAOBAB_UPSTREAMS: upstreams\.0\.kind: must be one of /),
    ]);
    expect(problems({ yaml, args: ['--upstreams', '[{"url": "none"}]'] })).toEqual([
      expect.stringMatching(/^--upstreams: upstreams\.0\.model: is required/),
      expect.stringMatching(/^--upstreams: upstreams\.0\.url: must be an address/),
    ]);
  });

  it('an unknown variable of ours', () => {
    expect(problems({ env: { BAOBAB_PROT: '1' } })).toEqual([expect.stringMatching(/^BAOBAB_PROT: unknown variable/)]);
  });

  it('a flag without a value', () => {
    expect(problems({ args: ['--port'] })).toEqual(['--port: needs a value']);
  });

  it('broken YAML, with its line', () => {
    expect(problems({ yaml: 'port: 1\nhost: [a\n' })[0]).toMatch(/baobab\.yaml:[23]: /);
    expect(problems({ yaml: 'port: 1\nport: 2\n' })).toEqual([
      `${file}:2: Map keys must be unique at line 2, column 1`,
    ]);
  });

  it.each(['- port: 1\n', 'port\n', '8080\n'])('a file that holds no keys: %j', (yaml) => {
    expect(problems({ yaml, env: { BAOBAB_PORT: '1' } })).toEqual([`${file}:1: must hold settings as 'key: value'`]);
  });

  it('a file that was named and is not there', () => {
    expect(problems({ args: ['--config', 'none.yaml'] })[0]).toContain('the configuration file does not exist');
  });

  it('a head that may take longer than the whole request', () => {
    expect(problems({ env: { BAOBAB_HTTP_REQUEST_TIMEOUT_MS: '1000' } })).toEqual([
      expect.stringContaining('http.headers_timeout_ms: must be at most http.request_timeout_ms, which is 1000'),
    ]);
  });

  it('a secret file that cannot be read, is empty or set beside the secret, without showing it', () => {
    writeFileSync(join(directory, 'empty'), '\n');
    writeFileSync(join(directory, 'short'), 'too-short\n');
    const of = (name: string) => `BAOBAB_FIRST_KEY_FILE: first_key_file: ${name}`;
    const given = (env: Record<string, string>) => problems({ env });
    expect(given({ BAOBAB_FIRST_KEY_FILE: 'none' })).toEqual([
      of(`cannot read ${join(directory, 'none')}: there is no such file or folder`),
    ]);
    expect(given({ BAOBAB_FIRST_KEY_FILE: '.' })).toEqual([of(`cannot read ${directory}: it is a folder, not a file`)]);
    expect(given({ BAOBAB_FIRST_KEY_FILE: 'empty' })).toEqual([of(`the file ${join(directory, 'empty')} is empty`)]);
    expect(given({ BAOBAB_FIRST_KEY_FILE: 'short', BAOBAB_FIRST_KEY: 'a-0123456789-long-value' })).toEqual([
      of('cannot be set together with first_key'),
    ]);
    const [short] = given({ BAOBAB_FIRST_KEY_FILE: 'short' });
    expect(short).toContain(`${join(directory, 'short')}: first_key: must be`);
    expect(short).not.toContain('too-short');
  });

  it('a store that is not an address of PostgreSQL, without showing it', () => {
    for (const store of ['mysql://user:hunter2@127.0.0.1/x', 'hunter2', 'postgres://', 'postgres://u:hunter2@[/x']) {
      expect(problems({ env: { BAOBAB_STORE: store } })).toEqual([
        'BAOBAB_STORE: store: must be an address such as postgres://user:password@127.0.0.1:5432/baobab',
      ]);
    }
  });

  it('counters that are not an address of Redis, without showing it', () => {
    const wrong = [
      'http://u:hunter2@127.0.0.1',
      'hunter2',
      'redis://',
      'redis://a,b',
      'redis://a/x',
      'redis+sentinel://a',
    ];
    for (const counters of wrong) {
      const [line = '', ...more] = problems({ env: { BAOBAB_COUNTERS: counters } });
      expect(line).toMatch(/^BAOBAB_COUNTERS: counters: must be an address such as redis:/);
      expect(line).not.toContain('hunter2');
      expect(more).toEqual([]);
    }
    const right = [
      'redis://127.0.0.1',
      'rediss://u:p@r:6380/2',
      'redis+sentinel://:p@a:1,b:2/main/1',
      'redis://[::1]:6379',
    ];
    for (const counters of right) expect(problems({ env: { BAOBAB_COUNTERS: counters } })).toEqual([]);
  });

  it('blobs that are not an address of a bucket', () => {
    const given = (env: Record<string, string>) => problems({ env });
    for (const BAOBAB_BLOBS of ['bucket', 's3://', 's3://UPPER', 's3://b', 's3://bucket/../x', 'https://bucket']) {
      expect(given({ BAOBAB_BLOBS })).toEqual(['BAOBAB_BLOBS: blobs: must be an address such as s3://bucket/prefix']);
    }
    const [line] = given({ BAOBAB_BLOBS: 's3://bucket', BAOBAB_BLOBS_ENDPOINT: 'http://u:hunter2@127.0.0.1:9000' });
    expect(line).toMatch(/^BAOBAB_BLOBS_ENDPOINT: blobs_endpoint: must be an address such as/);
    expect(line).not.toContain('hunter2');
    expect(given({ BAOBAB_BLOBS_ENDPOINT: 'http://127.0.0.1:9000' })).toEqual([
      'BAOBAB_BLOBS_ENDPOINT: blobs_endpoint: needs blobs, such as s3://bucket/prefix',
    ]);
  });

  it('a first key that is too short, without showing it', () => {
    const [line = ''] = problems({ env: { BAOBAB_FIRST_KEY: 'hunter2' } });
    expect(line).toContain('first_key: must be a secret of 16 to 200 letters, digits and signs without spaces');
    expect(line).not.toContain('hunter2');
  });

  it("the clients' key where the first key is meant, and accepts it beside a command", () => {
    expect(load({ env: { BAOBAB_API_KEY: 'x' } }).config.firstKey).toBeUndefined();
    expect(problems({ env: { BAOBAB_API_KEY_FILE: 'key' } })).toEqual([
      "BAOBAB_API_KEY_FILE: unknown variable; did you mean BAOBAB_FIRST_KEY_FILE? 'baobab config --settings' lists the known ones",
    ]);
    expect(problems({ yaml: 'port: 1\napi_key: hunter2hunter2hunter2\n' })).toEqual([
      `${file}:2: api_key: is not a setting of the server; first_key sets the first key of a new store`,
    ]);
  });

  it('reports every problem at once', () => {
    expect(problems({ yaml: 'port: x\nfoo: 1\n', env: { BAOBAB_REGION: 'Not OK' } })).toHaveLength(3);
  });

  it('reports the problems of a file in the order of its lines, then the others', () => {
    const yaml = ['foo: 1', 'files:', '  max_bytes: x', 'log:', '  level: loud', 'bar: 2', 'port: x'].join('\n');
    const places = problems({ yaml, env: { BAOBAB_REGION: 'Not OK' } }).map((line) => line.split(': ')[0]);
    expect(places).toEqual([...[1, 3, 5, 6, 7].map((line) => `${file}:${line}`), 'BAOBAB_REGION']);
  });
});

it('finds every secret of a configuration', () => {
  const { config } = loadConfig({
    args: [],
    env: {
      BAOBAB_STORE: 'postgres://user:store-password@127.0.0.1/baobab',
      BAOBAB_FIRST_KEY: 'first-key-0123456789',
      BAOBAB_MODELS_HF_TOKEN: 'hf_token_value',
      BAOBAB_MODELS_HF_ENDPOINT: 'http://user:letmein@127.0.0.1:1',
      BAOBAB_UPSTREAMS: '[{"model":"a/b","url":"http://127.0.0.1:1/v1","api_key":"upstream-key"}]',
    },
    workingDirectory: '/',
  });
  const store = ['postgres://user:store-password@127.0.0.1/baobab', 'store-password'];
  const secrets = ['first-key-0123456789', 'hf_token_value', 'letmein', ...store, 'upstream-key'];
  expect(secretsOf(config).toSorted()).toEqual(secrets);
});
