import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';

const PACKAGES = join(import.meta.dirname, '../packages');
/** The packages with rooms. The console has its own rules. */
const NAMES = ['core', 'engines', 'server'];

interface Arrows {
  /** Rooms whose code this one runs. */
  code: readonly string[];
  /** Rooms of which it only knows types. */
  types?: readonly string[];
}

/** Drivers that run models here: each folder of engines with a driver.ts. A new one needs no line in the table. */
const driverRooms = globSync('*/driver.ts', { cwd: join(PACKAGES, 'engines/src') }).map((path) => dirname(path));
const DRIVER: Arrows = { code: ['errors', 'runtime', 'engine', 'sandbox', 'seccomp'], types: ['domain'] };

/** Which room may know which. Tests may know everything. */
const CORE: Record<string, Arrows> = {
  errors: { code: [] },
  domain: { code: ['errors'] },
  ports: { code: [], types: ['domain', 'engine'] },
  runtime: { code: [], types: ['ports'] },
  sandbox: { code: ['runtime'] },
  engine: { code: ['errors', 'runtime'], types: ['domain', 'ports'] },
};
const ENGINES: Record<string, Arrows> = {
  ...Object.fromEntries(driverRooms.map((room) => [room, DRIVER])),
  seccomp: { code: [], types: ['sandbox'] },
  audio: { code: ['errors', 'runtime', 'sandbox', 'seccomp'], types: ['ports', 'engine'] },
  documents: { code: ['errors', 'runtime', 'sandbox', 'seccomp'], types: ['ports'] },
  // What the server may import: the doors in the package's `exports`.
  engines: { code: [...driverRooms, 'audio', 'documents'], types: ['engine'] },
};
const SERVER: Record<string, Arrows> = {
  main: { code: ['cli'] },
  compose: {
    code: [
      ...['adapters', 'admission', 'catalog', 'config', 'control', 'domain', 'drivers', 'engine', 'engines', 'errors'],
      ...[
        'fleet',
        'host',
        'http',
        'inference',
        'logging',
        'metering',
        'metrics',
        'models',
        'ports',
        'programs',
        'runtime',
      ],
      'services',
    ],
    types: ['upstreams'],
  },
  cli: {
    code: [
      ...['compose', 'config', 'catalog', 'control', 'domain', 'errors', 'logging', 'models', 'ports', 'runtime'],
      'validation',
    ],
    types: ['services', 'engine'],
  },
  http: {
    code: ['admission', 'domain', 'errors', 'runtime', 'validation'],
    types: ['inference', 'services', 'ports', 'engine', 'metrics'],
  },
  services: { code: ['admission', 'domain', 'errors', 'ports', 'runtime'], types: ['inference', 'engine'] },
  inference: { code: ['admission', 'domain', 'errors', 'ports', 'runtime'], types: ['metering', 'engine'] },
  metering: { code: ['domain'], types: ['ports'] },
  admission: { code: ['errors', 'runtime'], types: ['ports', 'engine'] },
  validation: { code: ['runtime'] },
  drivers: { code: ['engines', 'programs'], types: ['engine'] },
  programs: { code: ['engine', 'errors', 'host', 'runtime', 'sandbox', 'upstreams'], types: ['domain', 'ports'] },
  config: { code: ['validation', 'runtime', 'drivers', 'upstreams'] },
  catalog: { code: ['domain', 'validation', 'runtime', 'engine', 'drivers', 'upstreams'] },
  adapters: { code: ['ports', 'domain', 'errors', 'runtime'] },
  models: { code: ['errors', 'runtime'], types: ['domain', 'ports'] },
  control: { code: ['runtime'], types: ['engine'] },
  logging: { code: ['domain', 'errors', 'runtime'] },
  metrics: { code: ['domain', 'runtime'], types: ['host', 'upstreams', 'services'] },
  fleet: {
    code: ['admission', 'engine', 'errors', 'host', 'runtime', 'upstreams'],
    types: ['domain', 'ports'],
  },
  host: { code: ['admission', 'domain', 'drivers', 'engine', 'errors', 'runtime', 'sandbox'], types: ['ports'] },
  upstreams: { code: ['admission', 'domain', 'engine', 'errors', 'runtime'], types: ['ports'] },
};
const ROOMS: Record<string, Record<string, Arrows>> = { core: CORE, engines: ENGINES, server: SERVER };
const MAY_IMPORT: Record<string, Arrows> = { ...CORE, ...ENGINES, ...SERVER };
/** Which package may know which. */
const MAY_NEED: Record<string, readonly string[]> = {
  core: [],
  engines: ['core'],
  // An optional one, which may be missing: see drivers.ts.
  server: ['core', 'engines', 'console'],
};

/** Packages that belong to one place. */
const ONLY_IN: Record<string, RegExp> = {
  fastify: /^server\/http\//,
  'fastify-plugin': /^server\/http\//,
  '@fastify/': /^server\/http\//,
  '@scalar/': /^server\/http\//,
  kysely: /^server\/adapters\/sql\//,
  // SQLite's file lock also guards the data directory and downloads of weights.
  'node:sqlite': /^server\/(adapters\/(sql\/sqlite\/|data-dir-lock\.ts$)|models\/model-lock\.ts$)/,
  pg: /^server\/adapters\//,
  '@aws-sdk/': /^server\/adapters\/blobs\//,
  '@redis/client': /^server\/adapters\/counters\/redis\//,
  sharp: /^engines\/onnx\/image\//,
  'onnxruntime-node': /^engines\/onnx\//,
  'node-llama-cpp': /^engines\/llama\//,
  'prom-client': /^server\/metrics\//,
  koffi: /^engines\/seccomp\//,
  unpdf: /^engines\/documents\//,
  pino: /^server\/logging\//,
  undici: /^server\/models\//,
  'eventsource-parser': /^server\/upstreams\/transport\//,
};
const WITHOUT_PACKAGES = ['domain', 'errors', 'ports'];

interface Import {
  from: string;
  specifier: string;
  typesOnly: boolean;
}

/** Paths are `<package>/<path in its src>`. */
const isProduct = (path: string) => !path.endsWith('.test.ts') && !path.includes('/testing/');
const sourceOf = (path: string) => join(PACKAGES, path.replace('/', '/src/'));
const files = NAMES.flatMap((name) =>
  globSync('**/*.ts', { cwd: join(PACKAGES, name, 'src') }).map((path) => `${name}/${path}`),
)
  .filter(isProduct)
  .toSorted();
const text = new Map(files.map((path) => [path, readFileSync(sourceOf(path), 'utf8')]));

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

const OWN = '@baobab/';

/** The file that an import leads to; undefined for packages of others. */
function targetOf({ from, specifier }: Import): string | undefined {
  if (specifier.startsWith('.')) return join(dirname(from), specifier);
  return specifier.startsWith(OWN) ? specifier.slice(OWN.length) : undefined;
}

/** The first folder, or the name of a file beside them. The doors of engines are one room. */
function roomOf(path: string): string {
  const [name = '', first = '', second] = path.replace(/\.ts$/, '').split('/');
  return name === 'engines' && second === undefined ? 'engines' : first;
}

const inner = imports.flatMap((each) => {
  const to = targetOf(each);
  return to === undefined ? [] : [{ from: each.from, to, typesOnly: each.typesOnly }];
});

describe('the packages', () => {
  it('import each other by name, and only as the table says', () => {
    const wrong = inner.filter(({ from, to }) => {
      const [own = '', other = ''] = [from, to].map((path) => path.split('/')[0]);
      return own !== other && !MAY_NEED[own]?.includes(other);
    });
    expect(wrong).toEqual([]);
    const leaving = imports.filter(
      ({ from, specifier }) =>
        specifier.startsWith('.') && join(dirname(from), specifier).split('/')[0] !== from.split('/')[0],
    );
    expect(leaving).toEqual([]);
  });

  it('list what they need in their package.json', () => {
    const wrong = NAMES.flatMap((name) => {
      const { dependencies, optionalDependencies, peerDependencies } = JSON.parse(
        readFileSync(join(PACKAGES, name, 'package.json'), 'utf8'),
      );
      const listed = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
      return imports
        .filter(({ from, specifier }) => from.startsWith(`${name}/`) && !/^(\.|node:)/.test(specifier))
        .filter(({ specifier }) => !listed.some((each) => specifier === each || specifier.startsWith(`${each}/`)));
    });
    expect(wrong).toEqual([]);
  });

  it('load the engines only where they may be missing: dynamically', () => {
    const wrong = inner.filter(
      ({ from, to, typesOnly }) => from.startsWith('server/') && to.startsWith('engines/') && !typesOnly,
    );
    expect(wrong.map(({ from }) => from).toSorted()).toEqual([
      'server/compose/parts/inference.ts',
      'server/drivers.ts',
    ]);
    const fixed = wrong.filter(({ from, to }) => text.get(from)?.includes(` from '${OWN}${to}'`));
    expect(fixed).toEqual([]);
  });
});

describe('the rooms', () => {
  it('are all in the table', () => {
    const found = Object.groupBy(files, (path) => path.split('/')[0] ?? '');
    for (const [name, rooms] of Object.entries(ROOMS)) {
      expect([...new Set(found[name]?.map(roomOf))].toSorted()).toEqual(Object.keys(rooms).toSorted());
    }
  });

  it('import only what they may', () => {
    const wrong = inner.filter(({ from, to, typesOnly }) => {
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
    const wrong = inner.filter(({ from, to }) => {
      const dialect = /^server\/adapters\/sql\/(?!shared\/)[^/]+\//.exec(to)?.[0];
      return dialect !== undefined && !from.startsWith(dialect) && from !== 'server/adapters/store.ts';
    });
    expect(wrong).toEqual([]);
  });

  it('keep the folders of a driver in one direction', () => {
    const folderOf = (path: string) => /^engines\/[\w-]+\/[\w-]+\//.exec(path)?.[0];
    const next = new Map<string, Set<string>>();
    for (const { from, to } of inner) {
      const [folder, target] = [folderOf(from), folderOf(to)];
      if (folder === undefined || target === undefined || folder === target) continue;
      next.set(folder, (next.get(folder) ?? new Set()).add(target));
    }
    const reaches = (folder: string, goal: string, seen = new Set<string>()): boolean =>
      [...(next.get(folder) ?? [])].some((each) => {
        if (each === goal) return true;
        if (seen.has(each)) return false;
        seen.add(each);
        return reaches(each, goal, seen);
      });
    expect(next.size).toBeGreaterThan(4);
    expect([...next.keys()].filter((folder) => reaches(folder, folder))).toEqual([]);
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
      for (const each of importsOf(path)) {
        if (each.typesOnly) continue;
        const target = targetOf(each);
        if (target === undefined) packages.add(each.specifier);
        else visit(target);
      }
    };
    visit('server/drivers.ts');
    visit('engines/drivers.ts');
    const others = [...seen].filter((path) => path.startsWith('engines/') && !/\/drivers?\.ts$/.test(path));
    // Reads the metadata of a file with Node alone.
    expect(others).toEqual(['engines/llama/gguf-header.ts']);
    expect([...packages].filter((name) => !name.startsWith('node:'))).toEqual(['typebox']);
  });
});

/** Files that import each other in a ring, also only as types. */
function rings(next: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]) => {
    if (trail.includes(path)) found.push([...trail.slice(trail.indexOf(path)), path]);
    if (done.has(path)) return;
    done.add(path);
    for (const target of next.get(path) ?? []) visit(target, [...trail, path]);
  };
  for (const path of next.keys()) visit(path, []);
  return found;
}

describe('imports', () => {
  it('make no cycle, types included', () => {
    const next = Map.groupBy(inner, ({ from }) => from);
    expect(rings(new Map([...next].map(([from, arrows]) => [from, arrows.map(({ to }) => to)])))).toEqual([]);
  });

  const CONSOLE = join(PACKAGES, 'console/src');
  const parts = globSync('**/*.{ts,tsx}', { cwd: CONSOLE }).filter((path) => !/\.test\.tsx?$|^build\.ts$/.test(path));
  const importedBy = (path: string): string[] => {
    const content = readFileSync(join(CONSOLE, path), 'utf8');
    return [...content.matchAll(STATIC), ...content.matchAll(DYNAMIC)].map((match) => match.at(-1) ?? '');
  };
  const next = new Map(
    parts.map((path) => [
      path,
      importedBy(path)
        .filter((specifier) => specifier.startsWith('.'))
        .map((specifier) => join(dirname(path), specifier)),
    ]),
  );

  it('make no cycle in the console, neither of files nor of its folders', () => {
    expect(next.size).toBeGreaterThan(100);
    expect(rings(next)).toEqual([]);
    const folderOf = (path: string) => path.split('/')[0] ?? '';
    const folders = Map.groupBy(next.keys(), folderOf);
    const between = new Map(
      [...folders].map(([folder, paths]) => [
        folder,
        [...new Set(paths.flatMap((path) => (next.get(path) ?? []).map(folderOf)))].filter((to) => to !== folder),
      ]),
    );
    expect(rings(between)).toEqual([]);
  });

  it('bring no other code of the server into the console than that of its domain', () => {
    const code = parts.flatMap((path) =>
      [...readFileSync(join(CONSOLE, path), 'utf8').matchAll(STATIC)]
        .filter(([, type, specifier = '']) => type === undefined && specifier.startsWith(OWN))
        .map(([, , specifier = '']) => specifier),
    );
    expect(code.filter((specifier) => !specifier.startsWith(`${OWN}core/domain/`))).toEqual([]);
  });
});

describe('every file', () => {
  it('reads the environment only through the configuration', () => {
    const readers = files.filter((path) => /process\.env\b/.test(text.get(path) ?? ''));
    expect(readers.filter((path) => path !== 'server/main.ts' && !path.startsWith('server/config/'))).toEqual([]);
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
    const own = ['server/upstreams/failure/error-answer.ts', 'core/domain/audit/entry.ts'];
    const wrong = files
      .filter((path) => !path.startsWith('server/http/'))
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
