import { readFile } from 'node:fs/promises';
import { devNull } from 'node:os';
import { join } from 'node:path';
import type { RemoteSourceSpec, SourceSpec } from '@baobab/core/domain/model.ts';
import type { Secret } from '@baobab/core/ports/secret.ts';
import { asSecret } from '@baobab/core/runtime/secret.ts';
import { WeightsError } from '../weights-error.ts';
import { createHubSource } from './hf.ts';
import { networkFailure } from './network-failure.ts';
import { createNpmSource } from './npm.ts';
import { createNpmRegistry } from './npm-registry.ts';
import { type Environment, loadNpmSettings, type NpmSettings } from './npm-settings.ts';
import { type ArchiveAccess, createArchiveReader, type PackageArchives, withoutLogin } from './package-archives.ts';
import { createProxyFetch } from './proxy-fetch.ts';
import { createPythonIndex } from './python-index.ts';
import type { RemoteSource } from './source.ts';
import { createZipPackageSource } from './zip-packages.ts';

export interface RemoteSourcesDependencies {
  hfEndpoint: string;
  hfToken?: string | Secret | undefined;
  mavenRepository: string;
  /** For the settings of npm and pip, and for proxies. */
  environment: Environment;
  /** Where npm would look for a project's .npmrc. */
  workingDirectory: string;
}

export interface RemoteSources extends AsyncDisposable {
  /** The source and its mirrors in the order to try them; empty for files that are used in place. */
  of(source: SourceSpec): RemoteSource[];
}

/** Opens the sources of weights. Settings of package managers are read when they are first needed. */
export function createRemoteSources(dependencies: RemoteSourcesDependencies): RemoteSources {
  const { environment, workingDirectory } = dependencies;
  let npmSettings: Promise<NpmSettings> | undefined;
  const registry = createNpmRegistry(() => {
    npmSettings ??= loadNpmSettings(environment, workingDirectory);
    return npmSettings;
  });
  const closers: (() => Promise<void>)[] = [];
  const { fetch, close } = createProxyFetch(environment);
  closers.push(close);
  const { hfEndpoint: endpoint, hfToken } = dependencies;
  const hub = { endpoint, token: hfToken === undefined ? undefined : asSecret(hfToken), fetch };
  const mavenRepository = createMavenRepository({ url: dependencies.mavenRepository, fetch });

  async function openIndexes(): Promise<ArchiveAccess> {
    const { indexUrls, proxy, cert } = await loadPipSettings(environment);
    const ca = cert === undefined ? undefined : await readFile(cert, 'utf8');
    const { fetch, close } = createProxyFetch(environment, { proxy, ca });
    closers.push(close);
    return { baseUrls: indexUrls, fetch };
  }
  let indexes: Promise<ArchiveAccess> | undefined;
  const index = createPythonIndex(() => {
    indexes ??= openIndexes();
    return indexes;
  });

  function open(spec: RemoteSourceSpec): RemoteSource {
    if (spec.kind === 'hf') return createHubSource(spec, hub);
    if (spec.kind === 'npm') return createNpmSource(spec, registry);
    return createZipPackageSource(spec, spec.kind === 'maven' ? mavenRepository : index);
  }

  return {
    of: (source) => (source.kind === 'file' ? [] : [source, ...(source.mirrors ?? [])].map(open)),

    async [Symbol.asyncDispose]() {
      await indexes?.catch(() => {});
      await Promise.all(closers.map((close) => close()));
    },
  };
}

/** A group and an artifact, such as `org.acme:weights`. */
const ARTIFACT = /^([a-z0-9_-]+(?:\.[a-z0-9_-]+)*):([a-z0-9][\w.-]*)$/i;
const VERSION = /^[a-z0-9][\w.+-]*$/i;

interface MavenRepositoryDependencies {
  /** May hold a user name and password. */
  url: string;
  fetch: typeof fetch;
}

const nameOf = (url: string): string => `the Maven repository ${new URL(url).host}`;

/** Jars of a Maven repository. Their addresses follow from their names. */
function createMavenRepository({ url: repository, fetch }: MavenRepositoryDependencies): PackageArchives {
  const { sizeOf, openRange } = createArchiveReader(async () => ({ baseUrls: [repository], fetch }), nameOf);
  const base = withoutLogin(repository).url.href.replace(/\/$/, '');

  return {
    nameOf,
    sizeOf,
    openRange,

    async locate(packageName, version, signal) {
      const [, group, artifact] = ARTIFACT.exec(packageName) ?? [];
      if (group === undefined || !VERSION.test(version)) {
        throw new WeightsError('invalid', `'${packageName}' ${version} is not a Maven artifact and a version`);
      }
      const url = `${base}/${group.replaceAll('.', '/')}/${artifact}/${version}/${artifact}-${version}.jar`;
      try {
        await sizeOf(url, signal);
      } catch (error) {
        signal.throwIfAborted();
        throw networkFailure(`jar of ${packageName} ${version}`, nameOf(url), error);
      }
      return url;
    },
  };
}

interface PipSettings {
  /** Asked in this order; may hold a user name and password. */
  indexUrls: readonly string[];
  proxy: string | undefined;
  /** Path of a PEM file. */
  cert: string | undefined;
}

const PUBLIC_INDEX = 'https://pypi.org/simple';
/** Sections of pip.conf that apply to a download; later ones win. */
const SECTIONS = ['global', 'download'];

/** The files pip reads on Linux and macOS, least important first. */
function configFiles(environment: Environment): string[] {
  const { HOME: home = '', PIP_CONFIG_FILE: named, VIRTUAL_ENV: site, XDG_CONFIG_HOME: xdgHome } = environment;
  if (named === devNull) return [];
  const shared = (environment.XDG_CONFIG_DIRS ?? '/etc/xdg').split(':').filter((directory) => directory !== '');
  return [
    ...shared.map((directory) => join(directory, 'pip/pip.conf')),
    '/etc/pip.conf',
    join(home, '.pip/pip.conf'),
    join(home, 'Library/Application Support/pip/pip.conf'),
    join(xdgHome ?? join(home, '.config'), 'pip/pip.conf'),
    ...(site === undefined ? [] : [join(site, 'pip.conf')]),
    ...(named === undefined ? [] : [named]),
  ];
}

/** The subset of Python's ini format that pip writes: sections, `key = value`, and values continued on indented lines. */
export function parsePipConfig(text: string): Map<string, Map<string, string>> {
  const sections = new Map<string, Map<string, string>>();
  let section = new Map<string, string>();
  let key: string | undefined;
  for (const line of text.split(/\r?\n/)) {
    if (/^\s*([#;]|$)/.test(line)) continue;
    const continued = /^\s+(.*?)\s*$/.exec(line);
    const header = /^\[(.+)\]\s*$/.exec(line);
    const assignment = /^([^=:]+?)\s*[=:]\s*(.*?)\s*$/.exec(line);
    if (continued !== null && key !== undefined) {
      section.set(key, `${section.get(key) ?? ''} ${continued[1]}`.trim());
    } else if (header !== null) {
      section = sections.get(header[1] ?? '') ?? new Map<string, string>();
      sections.set(header[1] ?? '', section);
      key = undefined;
    } else if (assignment !== null) {
      key = (assignment[1] ?? '').toLowerCase().replaceAll('_', '-');
      section.set(key, assignment[2] ?? '');
    }
  }
  return sections;
}

/** Index, proxy and certificates as pip finds them: pip.conf files, then PIP_* variables. */
export async function loadPipSettings(environment: Environment): Promise<PipSettings> {
  const values = new Map<string, string>();
  for (const file of configFiles(environment)) {
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text === undefined) continue;
    const sections = parsePipConfig(text);
    for (const name of SECTIONS) for (const [key, value] of sections.get(name) ?? []) values.set(key, value);
  }
  const setting = (key: string): string | undefined => {
    const value = environment[`PIP_${key.toUpperCase().replaceAll('-', '_')}`] ?? values.get(key);
    return value === '' ? undefined : value;
  };
  const extra = setting('extra-index-url')?.split(/\s+/) ?? [];
  return {
    indexUrls: [setting('index-url') ?? PUBLIC_INDEX, ...extra],
    proxy: setting('proxy'),
    cert: setting('cert'),
  };
}
