import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

const SRC = join(import.meta.dirname, '../src');

interface Arrows {
  /** Rooms whose code this one runs. */
  code: readonly string[];
  /** Rooms of which it only knows types. */
  types?: readonly string[];
}

/** Drivers that run models here: each folder of engines/ with a driver.ts, but for remote. A new one needs no line in the table. */
const driverRooms = globSync('engines/*/driver.ts', { cwd: SRC })
  .map((path) => dirname(path))
  .filter((room) => room !== 'engines/remote');
const DRIVER: Arrows = {
  code: ['admission', 'errors', 'runtime', 'engines/driver', 'engines/written-calls'],
  types: ['domain', 'engines/engine'],
};

/** Which room may know which. Tests may know everything. */
const MAY_IMPORT: Record<string, Arrows> = {
  main: { code: ['cli'] },
  compose: {
    code: [
      ...[
        'adapters',
        'admission',
        'audio',
        'catalog',
        'config',
        'control',
        'documents',
        'domain',
        'errors',
        'http',
        'inference',
        'logging',
        'metering',
        'metrics',
        'models',
      ],
      ...['ports', 'runtime', 'services', 'engines/drivers', 'engines/fleet', 'engines/registry', 'engines/report'],
    ],
  },
  cli: {
    code: [
      'compose',
      'config',
      'catalog',
      'control',
      'domain',
      'errors',
      'logging',
      'models',
      'ports',
      'runtime',
      'validation',
    ],
    types: ['services', 'engines/engine', 'engines/report'],
  },
  http: {
    code: ['admission', 'domain', 'errors', 'runtime', 'validation'],
    types: ['inference', 'services', 'ports', 'engines/engine', 'metrics'],
  },
  services: {
    code: ['admission', 'domain', 'errors', 'ports', 'runtime'],
    types: ['inference', 'engines/engine', 'engines/report'],
  },
  inference: { code: ['admission', 'domain', 'errors', 'ports', 'runtime'], types: ['metering', 'engines/engine'] },
  metering: { code: ['domain'], types: ['ports'] },
  admission: { code: ['errors'], types: ['ports', 'engines/engine'] },
  ports: { code: [], types: ['domain', 'engines/engine'] },
  domain: { code: ['errors'] },
  errors: { code: [] },
  runtime: { code: [], types: ['ports'] },
  sandbox: { code: [] },
  validation: { code: ['runtime'] },
  config: { code: ['validation', 'runtime', 'engines/drivers', 'engines/remote'] },
  catalog: { code: ['domain', 'validation', 'runtime', 'engines/driver', 'engines/drivers'] },
  adapters: { code: ['ports', 'domain', 'errors', 'runtime'] },
  models: { code: ['errors', 'runtime'], types: ['domain', 'ports'] },
  audio: { code: ['errors', 'runtime', 'sandbox'], types: ['admission', 'ports', 'engines/engine'] },
  documents: { code: ['errors', 'runtime', 'sandbox'], types: ['admission', 'ports'] },
  control: { code: ['runtime'], types: ['engines/report'] },
  logging: { code: ['domain', 'errors', 'runtime'] },
  metrics: { code: ['runtime'], types: ['engines/fleet', 'engines/registry', 'services'] },
  'engines/engine': { code: [], types: ['domain'] },
  'engines/report': { code: [], types: ['engines/engine'] },
  'engines/written-calls': { code: [] },
  'engines/driver': { code: [], types: ['domain', 'engines/engine'] },
  'engines/drivers': { code: ['engines/remote', ...driverRooms], types: ['engines/driver'] },
  'engines/fleet': {
    code: ['admission', 'errors', 'runtime', 'engines/remote', 'engines/report'],
    types: ['domain', 'engines/engine', 'engines/registry'],
  },
  'engines/registry': {
    code: ['errors', 'runtime', 'engines/driver', 'engines/host'],
    types: ['ports', 'engines/engine', 'engines/report'],
  },
  'engines/host': {
    code: ['admission', 'domain', 'errors', 'runtime', 'sandbox'],
    types: ['ports', 'engines/engine', 'engines/driver', 'engines/report'],
  },
  ...Object.fromEntries(driverRooms.map((room) => [room, DRIVER])),
  'engines/remote': {
    code: ['admission', 'domain', 'errors', 'runtime', 'engines/written-calls'],
    types: ['ports', 'engines/engine', 'engines/driver', 'engines/report'],
  },
};

/** Packages that belong to one place. */
const ONLY_IN: Record<string, RegExp> = {
  fastify: /^http\//,
  'fastify-plugin': /^http\//,
  '@fastify/': /^http\//,
  '@scalar/': /^http\//,
  kysely: /^adapters\/sql\//,
  // SQLite's file lock also guards the data directory and downloads of weights.
  'node:sqlite': /^(adapters\/(sql\/sqlite\/|data-dir-lock\.ts$)|models\/model-lock\.ts$)/,
  pg: /^adapters\//,
  '@aws-sdk/': /^adapters\/blobs\//,
  '@redis/client': /^adapters\/counters\/redis\//,
  sharp: /^engines\/onnx\/image\//,
  'onnxruntime-node': /^engines\/onnx\//,
  'node-llama-cpp': /^engines\/llama\//,
  'prom-client': /^metrics\//,
  unpdf: /^documents\//,
  pino: /^logging\//,
  undici: /^models\//,
  'eventsource-parser': /^engines\/remote\/transport\//,
};
const WITHOUT_PACKAGES = ['domain', 'errors', 'ports'];

interface Import {
  from: string;
  specifier: string;
  typesOnly: boolean;
}

const isProduct = (path: string) => !path.endsWith('.test.ts') && !path.includes('/testing/');
const files = globSync('**/*.ts', { cwd: SRC }).filter(isProduct).toSorted();
const text = new Map(files.map((path) => [path, readFileSync(join(SRC, path), 'utf8')]));

const STATIC = /^(?:import|export)\s+(type\s+)?(?:[^'";]*?\sfrom\s+)?'([^']+)'/gm;
const DYNAMIC = /\bimport\(\s*'([^']+)'/g;

function importsOf(path: string): Import[] {
  const content = text.get(path) ?? '';
  return [
    ...[...content.matchAll(STATIC)].map(([, type, specifier = '']) => ({
      from: path,
      specifier,
      typesOnly: type !== undefined,
    })),
    ...[...content.matchAll(DYNAMIC)].map(([, specifier = '']) => ({ from: path, specifier, typesOnly: false })),
  ];
}
const imports = files.flatMap(importsOf);

function roomOf(path: string): string {
  const [first = '', second = ''] = path.replace(/\.ts$/, '').split('/');
  return first === 'engines' ? `${first}/${second}` : first;
}

describe('the rooms of src', () => {
  it('are all in the table', () => {
    expect([...new Set(files.map(roomOf))].toSorted()).toEqual(Object.keys(MAY_IMPORT).toSorted());
  });

  it('import only what they may', () => {
    const wrong = imports
      .filter(({ specifier }) => specifier.startsWith('.'))
      .map(({ from, specifier, typesOnly }) => ({
        from,
        to: relative(SRC, join(SRC, dirname(from), specifier)),
        typesOnly,
      }))
      .filter(({ from, to, typesOnly }) => {
        const [room, target] = [roomOf(from), roomOf(to)];
        const { code = [], types = [] } = MAY_IMPORT[room] ?? {};
        return room !== target && !code.includes(target) && !(typesOnly && types.includes(target));
      });
    expect(wrong).toEqual([]);
  });

  it('import no other file than their own kind: relative, with its ending', () => {
    const odd = imports.filter(({ specifier }) => specifier.startsWith('.') && !specifier.endsWith('.ts'));
    expect(odd).toEqual([]);
  });

  it('import packages only where they belong', () => {
    const wrong = imports.filter(({ from, specifier }) =>
      Object.entries(ONLY_IN).some(
        ([name, place]) =>
          (specifier === name || specifier.startsWith(name.endsWith('/') ? name : `${name}/`)) && !place.test(from),
      ),
    );
    expect(wrong).toEqual([]);
  });

  it('keep SQL dialects apart: only adapters/store.ts knows them', () => {
    const wrong = imports
      .filter(({ specifier }) => specifier.startsWith('.'))
      .map(({ from, specifier }) => ({ from, to: relative(SRC, join(SRC, dirname(from), specifier)) }))
      .filter(({ from, to }) => {
        const dialect = /^adapters\/sql\/(?!shared\/)[^/]+\//.exec(to)?.[0];
        return dialect !== undefined && !from.startsWith(dialect) && from !== 'adapters/store.ts';
      });
    expect(wrong).toEqual([]);
  });

  it('keep clocks, timers and randomness out of domain', () => {
    const impure =
      /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bperformance\.|\bcrypto\b|\bset(?:Timeout|Interval|Immediate)\b|'node:/;
    const found = files.filter((path) => roomOf(path) === 'domain' && impure.test(text.get(path) ?? ''));
    expect(found).toEqual([]);
  });

  it.each(WITHOUT_PACKAGES)('%s needs nothing but Node', (room) => {
    const packages = imports.filter(({ from, specifier }) => roomOf(from) === room && !/^(\.|node:)/.test(specifier));
    expect(packages).toEqual([]);
  });
});

describe('the list of drivers', () => {
  it('loads no native code into the server: it imports only what describes a driver', () => {
    const seen = new Set<string>();
    const packages = new Set<string>();
    const visit = (path: string) => {
      if (seen.has(path)) return;
      seen.add(path);
      for (const { specifier, typesOnly } of importsOf(path)) {
        if (typesOnly) continue;
        if (specifier.startsWith('.')) visit(join(dirname(path), specifier));
        else packages.add(specifier);
      }
    };
    visit('engines/drivers.ts');
    const others = [...seen].filter((path) => !/^engines\/([\w-]+\/)?drivers?\.ts$/.test(path));
    // Reads the metadata of a file with Node alone.
    expect(others).toEqual(['engines/llama/gguf-header.ts']);
    expect([...packages].filter((name) => !name.startsWith('node:'))).toEqual(['typebox']);
  });
});

describe('every file', () => {
  it('reads the environment only through the configuration', () => {
    const readers = files.filter((path) => /process\.env\b/.test(text.get(path) ?? ''));
    expect(readers.filter((path) => path !== 'main.ts' && !path.startsWith('config/'))).toEqual([]);
  });

  it('has a name that says what it is about', () => {
    const vague = files.filter((path) => /(^|-)(utils?|helpers?|common|manager|misc)(-|\.)/.test(basename(path)));
    expect(vague).toEqual([]);
    expect(files.filter((path) => !/^[a-z0-9-]+(\.d)?\.ts$/.test(basename(path)))).toEqual([]);
  });

  it('has at most 400 lines', () => {
    expect(files.filter((path) => (text.get(path) ?? '').split('\n').length > 400)).toEqual([]);
  });

  it('names the fields of a request by inner paths, except in http', () => {
    const wireName =
      /errors\.(invalid|missing|unsupported)Parameter\(\s*['`]|errors\.(context\w*TooLong|tooManyInputs|validationFailed)\(\s*['`]|\bfield: ['`]/;
    // A variable is a path too: a plain string would stay as it is, whatever the client calls the field.
    const plainString =
      /errors\.(invalid|missing|unsupported)Parameter\(\s*[\w.]*param\b|errors\.(context\w*TooLong|tooManyInputs|validationFailed)\(\s*[\w.]*param\b|^\s*(const )?field\??: (string|'|`)/m;
    // The fields of upstreams are their own.
    const own = ['engines/remote/failure/error-answer.ts', 'domain/audit/entry.ts'];
    const wrong = files
      .filter((path) => !path.startsWith('http/'))
      .filter((path) => wireName.test(text.get(path) ?? '') || plainString.test(text.get(path) ?? ''));
    expect(wrong.filter((path) => !own.includes(path))).toEqual([]);
  });

  it('obeys the compiler and the linter without exceptions', () => {
    const exceptions = files.filter((path) =>
      /@ts-(ignore|expect-error|nocheck)|biome-ignore/.test(text.get(path) ?? ''),
    );
    expect(exceptions).toEqual([]);
  });
});
