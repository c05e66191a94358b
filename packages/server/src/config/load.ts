import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { isAddressRange } from '@baobab/core/runtime/addresses.ts';
import { nearest } from '@baobab/core/runtime/nearest.ts';
import { Value } from 'typebox/value';
import { UpstreamSchema } from '../upstreams/upstream-settings.ts';
import { inOrderOfLines, readYaml } from '../validation/document.ts';
import { expectation } from '../validation/expectation.ts';
import { snake } from '../validation/names.ts';
import { problemsOf } from '../validation/problems.ts';
import { type Config, ConfigSchema } from './schema.ts';
import { isSecret, readSecretFiles } from './secret-files.ts';
import { parseText, SETTINGS, type Setting } from './settings.ts';
import { workerProblems } from './workers.ts';

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

export interface ConfigSources {
  /** Everything after the command's name. Flags that are settings are taken out. */
  args: readonly string[];
  /** Flags that the command reads itself, although a setting has the same. */
  commandFlags?: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  workingDirectory: string;
}

/** The key that clients send. It may be set where a server or a command runs too, and is no setting. */
export const CLIENT_KEY_VARIABLE = 'BAOBAB_API_KEY';

export type ResolvedConfig = Config & { modelsDir: string };

export interface LoadedConfig {
  config: ResolvedConfig;
  /** Arguments that are not settings. */
  rest: string[];
  /** The configuration file, if there is one. */
  file: string | undefined;
  /** The variable, flag or line that a setting comes from. */
  locate(path: readonly string[]): string;
}

function setAt(target: Record<string, unknown>, path: readonly string[], value: unknown): void {
  let place = target;
  for (const name of path.slice(0, -1)) {
    if (typeof place[name] !== 'object' || place[name] === null) place[name] = {};
    place = place[name] as Record<string, unknown>;
  }
  place[path.at(-1) as string] = value;
}

interface Flags {
  given: [Setting, string][];
  rest: string[];
  file: string | undefined;
}

function takeFlags(args: readonly string[], commandFlags: readonly string[], problems: string[]): Flags {
  const flags: Flags = { given: [], rest: [], file: undefined };
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index] as string;
    // What follows is for another program.
    if (argument === '--') {
      flags.rest.push(...args.slice(index));
      break;
    }
    const [flag, inline] = argument.startsWith('--') ? argument.split(/=(.*)/s) : [argument];
    const setting = SETTINGS.find((candidate) => candidate.flag === flag && !commandFlags.includes(candidate.flag));
    if (setting === undefined && flag !== '--config') {
      flags.rest.push(argument);
      continue;
    }
    const value = inline ?? args[++index];
    if (value === undefined) problems.push(`${flag}: needs a value`);
    else if (setting === undefined) flags.file = value;
    else flags.given.push([setting, value]);
  }
  return flags;
}

/** Node refuses a head timeout that is longer than the request timeout. */
function timeoutProblems(values: unknown, locate: (path: readonly string[]) => string): string[] {
  const { headersTimeoutMs: head, requestTimeoutMs: whole } = (values as Partial<Config>).http ?? {};
  if (typeof head !== 'number' || typeof whole !== 'number' || head <= whole) return [];
  const place = locate(['http', 'headersTimeoutMs']);
  return [`${place}: http.headers_timeout_ms: must be at most http.request_timeout_ms, which is ${whole}`];
}

function isHttpAddress(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol);
}

function addressProblems(values: unknown, locate: (path: readonly string[]) => string): string[] {
  const { upstreams, models } = values as Partial<Config>;
  const addresses = [
    { path: ['models', 'hfEndpoint'], text: models?.hfEndpoint, example: 'https://huggingface.co' },
    { path: ['models', 'mavenRepository'], text: models?.mavenRepository, example: 'https://repo1.maven.org/maven2' },
    ...(Array.isArray(upstreams) ? upstreams : []).map((upstream, index) => ({
      path: ['upstreams', `${index}`, 'url'],
      text: upstream?.url,
      example: 'http://127.0.0.1:8000/v1',
    })),
  ];
  return addresses.flatMap(({ path, text, example }) => {
    if (typeof text !== 'string') return [];
    const place = `${locate(path)}: ${path.map(snake).join('.')}`;
    if (!isHttpAddress(text)) return [`${place}: must be an address such as ${example}`];
    // They would end up in logs and metrics, and are not sent.
    const hasCredentials = path[0] === 'upstreams' && /^[^/]*\/\/[^/]*@/.test(text);
    return hasCredentials ? [`${place}: must not contain a user or password; use api_key instead`] : [];
  });
}

/** Clients and upstreams have an `api_key`; the server has a `first_key`. */
function clientKeyProblems(values: Record<string, unknown>, locate: (path: readonly string[]) => string): string[] {
  return ['apiKey', 'apiKeyFile'].flatMap((name) => {
    if (values[name] === undefined) return [];
    delete values[name];
    const meant = snake(name).replace('api', 'first');
    return [
      `${locate([name])}: ${snake(name)}: is not a setting of the server; ${meant} sets the first key of a new store`,
    ];
  });
}

function proxyProblems(values: unknown, locate: (path: readonly string[]) => string): string[] {
  const { trustedProxies } = (values as Partial<Config>).http ?? {};
  return (Array.isArray(trustedProxies) ? trustedProxies : []).flatMap((text, index) => {
    if (typeof text !== 'string' || isAddressRange(text)) return [];
    const place = locate(['http', 'trustedProxies', `${index}`]);
    return [`${place}: http.trusted_proxies.${index}: must be an IP address or a range such as 10.0.0.0/8`];
  });
}

const holdsSecret = ({ schema, key }: Setting, value: unknown): boolean =>
  isSecret(schema) || (key === 'upstreams' && Array.isArray(value) && value.some((item) => item?.apiKey !== undefined));

const elsewhere = ({ schema, variable, flag }: Setting): string =>
  isSecret(schema) ? `use ${flag}-file or ${variable}` : `use ${variable}, or api_key_file`;

/** Reads the file, the environment and the flags; later ones override. Throws one error that lists every problem. */
export function loadConfig({ args, commandFlags = [], env, workingDirectory }: ConfigSources): LoadedConfig {
  const problems: string[] = [];
  const flags = takeFlags(args, commandFlags, problems);
  const chosen = flags.file ?? env.BAOBAB_CONFIG;
  const file = resolve(workingDirectory, chosen ?? 'baobab.yaml');
  const document = existsSync(file) ? readYaml(file) : undefined;
  if (document === undefined && chosen !== undefined) problems.push(`${file}: the configuration file does not exist`);
  problems.push(...(document?.problems ?? []));
  const content = document?.value ?? {};
  const isMapping = typeof content === 'object' && !Array.isArray(content);
  if (!isMapping) problems.push(`${file}:1: must hold settings as 'key: value'`);
  const values = (isMapping ? content : {}) as Record<string, unknown>;
  /** The variable or flag that set a key, for messages. */
  const givenBy = new Map<string, string>();

  for (const setting of SETTINGS) {
    const text = env[setting.variable];
    if (text === undefined || text === '') continue;
    setAt(values, setting.path, parseText(setting.schema, text));
    givenBy.set(setting.key, setting.variable);
  }
  const known = new Set(['BAOBAB_CONFIG', CLIENT_KEY_VARIABLE, ...SETTINGS.map(({ variable }) => variable)]);
  for (const name of Object.keys(env)) {
    if (name.startsWith('BAOBAB_') && !known.has(name)) {
      const meant = name === `${CLIENT_KEY_VARIABLE}_FILE` ? 'BAOBAB_FIRST_KEY_FILE' : nearest(name, [...known]);
      const hint = meant === undefined ? '' : `did you mean ${meant}? `;
      problems.push(`${name}: unknown variable; ${hint}'baobab config --settings' lists the known ones`);
    }
  }
  for (const [setting, text] of flags.given) {
    const value = parseText(setting.schema, text);
    if (holdsSecret(setting, value)) {
      problems.push(`${setting.flag}: other users can see secrets on the command line; ${elsewhere(setting)}`);
    }
    setAt(values, setting.path, value);
    givenBy.set(setting.key, setting.flag);
  }

  const keyOf = (path: readonly string[]) => path.map(snake).join('.');
  const locate = (path: readonly string[]) => {
    // A list is given as a whole.
    const giver = path.map((_, index) => givenBy.get(keyOf(path.slice(0, index + 1)))).findLast(Boolean);
    return giver ?? document?.locate(path) ?? file;
  };
  const misnamed = clientKeyProblems(values, locate);
  const complete = Value.Default(ConfigSchema, values);
  const secretProblems: string[] = [];
  readSecretFiles(ConfigSchema, complete, {
    workingDirectory,
    onRead: (path, secretFile) => givenBy.set(keyOf(path), secretFile),
    onProblem: (path, text) => secretProblems.push(`${locate(path)}: ${keyOf(path)}: ${text}`),
  });
  const found = [
    ...misnamed,
    ...secretProblems,
    ...problemsOf(ConfigSchema, complete, locate),
    ...timeoutProblems(complete, locate),
    ...addressProblems(complete, locate),
    ...partAddressProblems(complete, locate),
    ...workerProblems(complete, locate),
    ...proxyProblems(complete, locate),
  ];
  problems.push(...inOrderOfLines(file, found));
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));

  const config = complete as Config;
  const dataDir = resolve(workingDirectory, config.dataDir);
  const modelsDir =
    config.modelsDir === undefined ? resolve(dataDir, 'models') : resolve(workingDirectory, config.modelsDir);
  const catalogDir = config.catalogDir === undefined ? undefined : resolve(workingDirectory, config.catalogDir);
  return {
    config: { ...config, dataDir, modelsDir, ...(catalogDir !== undefined && { catalogDir }) },
    rest: flags.rest,
    file: document === undefined ? undefined : file,
    locate,
  };
}

type Locate = (path: readonly string[]) => string;

interface PartAddress {
  name: 'store' | 'counters' | 'blobs' | 'blobsEndpoint';
  isValid(text: string): boolean;
  example: string;
}

const ADDRESSES: readonly PartAddress[] = [
  {
    name: 'store',
    isValid: (text) => /^postgres(ql)?:\/\/./.test(text) && URL.canParse(text),
    example: 'postgres://user:password@127.0.0.1:5432/baobab',
  },
  {
    name: 'counters',
    isValid: (text) =>
      /^rediss?:\/\/([^@/]*@)?[^/?@,]+(\/\d*)?(\?.*)?$/.test(text) ||
      /^rediss?\+sentinel:\/\/([^@/]*@)?[^/?@]+\/[^/?]+(\/\d*)?(\?.*)?$/.test(text),
    example: 'redis://:password@127.0.0.1:6379 or redis+sentinel://host1:26379,host2:26379/mymaster',
  },
  {
    name: 'blobs',
    isValid: (text) => /^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[\w-][\w.-]*)*\/?$/.test(text),
    example: 's3://bucket/prefix',
  },
  {
    name: 'blobsEndpoint',
    isValid: (text) => /^https?:\/\/[^/?#@]+\/?$/.test(text) && URL.canParse(text),
    example: 'https://s3.example.com, without a path, user or password',
  },
];

/** Addresses of the parts that servers share. Messages do not repeat them: they may contain a password. */
function partAddressProblems(values: unknown, locate: Locate): string[] {
  const settings = values as Partial<Config>;
  const dependent = (['blobsEndpoint', 'blobsPresignedDownloads'] as const)
    .filter((name) => settings.blobs === undefined && settings[name])
    .map((name) => `${locate([name])}: ${snake(name)}: needs blobs, such as s3://bucket/prefix`);
  const wrong = ADDRESSES.flatMap(({ name, isValid, example }) => {
    const text = settings[name];
    if (typeof text !== 'string' || isValid(text)) return [];
    return [`${locate([name])}: ${snake(name)}: must be an address such as ${example}`];
  });
  return [...wrong, ...dependent];
}

/** Why a secret that was read again cannot be used. `key`: of its setting, such as `metrics.token`; `api_key` for that of an upstream. */
export function secretProblem(key: string, value: string): string | undefined {
  const address = ADDRESSES.find(({ name }) => name === key);
  if (address !== undefined)
    return address.isValid(value) ? undefined : `must be an address such as ${address.example}`;
  const schema = SETTINGS.find((setting) => setting.key === key)?.schema ?? UpstreamSchema.properties.apiKey;
  return Value.Check(schema, value) ? undefined : expectation(schema);
}
