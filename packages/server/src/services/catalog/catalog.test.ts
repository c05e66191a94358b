import type { ModelAlias, ModelEntry } from '@baobab/core/domain/model.ts';
import { beforeEach, describe, expect, it } from 'vitest';
import { account, apiKey } from '../../../../../test/contracts/key-fixtures.ts';
import { BY, someEntry } from '../../../../../test/fixtures/audit-entries.ts';
import { type MemoryRepositories, memoryRepositories } from '../../../../../test/fixtures/memory-repositories.ts';
import { type CatalogService, createCatalog, type Serving } from './catalog.ts';

const version = (name: string) => ({
  version: name,
  engine: { driver: 'remote' as const, task: 'chat' as const, options: {} },
  deprecatedAt: null,
  retiredAt: null,
});

const entry = (changes: Partial<ModelEntry>): ModelEntry => ({
  slug: 'acme/chat',
  provider: 'acme',
  modality: 'chat',
  description: '',
  languages: ['en'],
  license: 'MIT',
  created: 0,
  contextLength: 100,
  maxOutputTokens: null,
  dimensions: null,
  truncation: false,
  capabilities: { tools: false, jsonMode: false, vision: false, structuredOutput: false },
  pricing: { promptPerMillion: 1, completionPerMillion: 1, cacheReadPerMillion: null, audioPerMinute: null },
  recommended: '2026-06-01',
  versions: [version('2026-01-01'), version('2026-06-01'), version('2026-09-01')],
  starter: false,
  ...changes,
});

const ENTRIES = [
  entry({}),
  entry({ slug: 'acme/rank', modality: 'rerank' }),
  entry({ slug: 'other/chat', provider: 'other' }),
];
const DAY = 86_400_000;

let store: MemoryRepositories;
let now: number;
let served: Record<string, Serving>;
let catalog: CatalogService;
const open = (aliases: ModelAlias[] = []) =>
  createCatalog({
    aliases,
    entries: ENTRIES,
    ...store,
    serving: ({ slug }) => served[slug] ?? { regions: ['local'], status: 'cold' },
    clock: { now: () => now },
  });

beforeEach(async () => {
  now = Date.parse('2026-11-15T08:00:00Z');
  store = memoryRepositories();
  served = {};
  catalog = await open();
});

const slugs = (filter: Parameters<CatalogService['list']>[0]) => catalog.list(filter).map((model) => model.entry.slug);

describe('the list', () => {
  it('filters by modality, provider and the region that serves now', () => {
    served['other/chat'] = { regions: ['eu-1'], status: 'ready' };
    served['acme/rank'] = { regions: [], status: 'unavailable' };
    expect(slugs({}).sort()).toEqual(['acme/chat', 'acme/rank', 'other/chat']);
    expect(slugs({ modality: 'rerank' })).toEqual(['acme/rank']);
    expect(slugs({ provider: 'other' })).toEqual(['other/chat']);
    expect(slugs({ region: 'local' })).toEqual(['acme/chat']);
    expect(slugs({ region: 'eu-1', modality: 'chat', provider: 'acme' })).toEqual([]);
  });

  it('begins with a chat model that answers soonest, a recommended one if there are several', async () => {
    const listed = [
      entry({ slug: 'a/embed', modality: 'embedding', starter: true }),
      entry({ slug: 'a/away' }),
      entry({ slug: 'a/cold' }),
      entry({ slug: 'b/starter', starter: true }),
      entry({ slug: 'c/ready' }),
      entry({ slug: 'd/ready-starter', starter: true }),
    ];
    served['a/away'] = { regions: [], status: 'unavailable' };
    for (const slug of ['a/embed', 'c/ready', 'd/ready-starter'])
      served[slug] = { regions: ['local'], status: 'ready' };
    await catalog.replaceEntries(listed);
    expect(slugs({})).toEqual(['d/ready-starter', 'c/ready', 'b/starter', 'a/cold', 'a/away', 'a/embed']);
  });

  it('has what is only down at the moment, and what nothing is configured for on request', () => {
    served['acme/chat'] = { regions: [], status: 'unavailable', remedy: 'no upstream is configured for it' };
    served['acme/rank'] = { regions: [], status: 'unavailable', reason: 'none of its upstreams is healthy' };
    expect(slugs({})).toEqual(['other/chat', 'acme/rank']);
    expect(slugs({ status: 'all' })).toEqual(['other/chat', 'acme/chat', 'acme/rank']);
    expect(slugs({ status: 'unavailable' })).toEqual(['acme/chat', 'acme/rank']);
    expect(slugs({ status: 'cold' })).toEqual(['other/chat']);
  });

  it('has what a key with these scopes may call', () => {
    expect(slugs({ scopes: ['models', 'rerank'] })).toEqual(['acme/rank']);
    expect(slugs({ scopes: ['models', 'chat'] })).toEqual(['acme/chat', 'other/chat']);
    expect(slugs({ scopes: ['models'], status: 'all', allowedModels: ['acme/*'] })).toEqual(['acme/chat', 'acme/rank']);
  });
});

describe('a model that nothing is configured for', () => {
  it('is refused with what to configure, and not as an outage', () => {
    served['acme/chat'] = { regions: [], status: 'unavailable', remedy: 'no upstream is configured for it' };
    const principal = { account: account({}), key: apiKey({ allowedRegions: [], allowedModels: [] }) };
    const resolve = () => catalog.resolve('acme/chat', { modality: 'chat', regionPin: 'local', principal });
    expect(resolve).toThrow(
      expect.objectContaining({
        code: 'model_unavailable',
        shouldRetry: false,
        retryAfterSeconds: undefined,
        message: expect.stringContaining('is not served here: no upstream is configured for it.'),
      }),
    );
  });
});

describe('a reference', () => {
  it('without a pin means the recommended version, with one that version', () => {
    expect(catalog.get('acme/chat').version.version).toBe('2026-06-01');
    expect(catalog.get('acme/chat@2026-01-01').version.version).toBe('2026-01-01');
  });

  it.each(['acme/none', 'acme/chat@2020-01-01', 'acme/chat@latest', 'nonsense', '', '__proto__', 'acme/chat@'])(
    '%j is not found',
    (reference) => {
      expect(() => catalog.get(reference)).toThrow(expect.objectContaining({ code: 'model_not_found', status: 404 }));
    },
  );
});

describe('a name that is almost right', () => {
  it.each([
    ['rank', 'acme/rank'],
    ['Acme/Rank', 'acme/rank'],
    ['acme/rnak', 'acme/rank'],
    ['ranks', 'acme/rank'],
    ['acme/rank@2020-01-01', "acme/rank@2026-09-01' or 'acme/rank@2026-06-01' or 'acme/rank@2026-01-01"],
    ['rank@latest', "acme/rank@2026-09-01' or 'acme/rank@2026-06-01' or 'acme/rank@2026-01-01"],
  ])('%s is answered with %s', (reference, meant) => {
    expect(() => catalog.get(reference)).toThrow(`The model '${reference}' does not exist. Did you mean '${meant}'?`);
  });

  it('is not answered with a model that the key may not use', () => {
    expect(() => catalog.get('rank', undefined, ['other/*'])).toThrow('GET /v1/models lists the ones that do.');
    expect(() => catalog.get('chat', undefined, ['other/*'])).toThrow("Did you mean 'other/chat'?");
    expect(() => catalog.get('acme/rank@2020-01-01', undefined, ['other/*'])).toThrow('lists the ones that do.');
  });
});

describe('deprecation', () => {
  it('of a pin leaves the other versions alone', async () => {
    await catalog.deprecate('acme/chat@2026-01-01', '2027-03-01', BY);
    expect(catalog.get('acme/chat@2026-01-01').version.deprecatedAt).toBe(Date.UTC(2027, 2, 1));
    expect(catalog.get('acme/chat').version.deprecatedAt).toBeNull();
  });

  it('of a slug means all its versions', async () => {
    await catalog.deprecate('acme/chat', '2027-03-01', BY);
    for (const { deprecatedAt } of catalog.get('acme/chat').entry.versions) {
      expect(deprecatedAt).toBe(Date.UTC(2027, 2, 1));
    }
    expect(catalog.get('other/chat').version.deprecatedAt).toBeNull();
  });

  it('needs 90 days', async () => {
    await expect(catalog.deprecate('acme/chat', '2027-02-13', BY)).rejects.toMatchObject({
      code: 'validation_failed',
      param: 'removalDate',
      message: expect.stringContaining('the earliest date is 2027-02-14'),
    });
    expect(catalog.get('acme/chat').version.deprecatedAt).toBeNull();
  });

  it('is seen by another process at its next refresh', async () => {
    const other = await open();
    await other.refresh();
    await catalog.deprecate('acme/chat', '2027-03-01', BY);
    expect(other.get('acme/chat').version.deprecatedAt).toBeNull();
    await other.refresh();
    expect(other.get('acme/chat').version.deprecatedAt).toBe(Date.UTC(2027, 2, 1));
  });

  it('is not lost when the store fails once while it is read', async () => {
    const { list } = store.lifecycles;
    const other = await open();
    await other.refresh();
    await catalog.deprecate('acme/chat', '2027-03-01', BY);
    store.lifecycles.list = () => Promise.reject(new Error('busy'));
    await expect(other.refresh()).rejects.toThrow('busy');
    store.lifecycles.list = list;
    await other.refresh();
    expect(other.get('acme/chat').version.deprecatedAt).not.toBeNull();
  });
});

describe('retirement', () => {
  it('is refused before the announced day, and without one', async () => {
    await expect(catalog.retire('acme/chat', BY)).rejects.toMatchObject({ code: 'validation_failed' });
    await catalog.deprecate('acme/chat', '2027-03-01', BY);
    await expect(catalog.retire('acme/chat', BY)).rejects.toThrow(/has not come yet/);
  });

  it('of the recommended version moves the slug to the newest one left', async () => {
    await catalog.deprecate('acme/chat@2026-06-01', '2027-03-01', BY);
    now += 200 * DAY;
    await catalog.retire('acme/chat@2026-06-01', BY);
    expect(() => catalog.get('acme/chat@2026-06-01')).toThrow(/does not exist/);
    expect(catalog.get('acme/chat').version.version).toBe('2026-09-01');
  });

  it('of a slug takes it out of the list, and 404 answers its calls', async () => {
    await catalog.deprecate('acme/chat', '2027-03-01', BY);
    now += 200 * DAY;
    await catalog.retire('acme/chat', BY);
    expect(slugs({})).toEqual(['other/chat', 'acme/rank']);
    expect(() => catalog.get('acme/chat')).toThrow(expect.objectContaining({ code: 'model_not_found' }));
    await expect(catalog.retire('acme/chat', BY)).rejects.toMatchObject({ code: 'model_not_found' });
  });
});

describe('what a call may use', () => {
  const resolve = (reference: string, options: { models?: string[]; regions?: string[]; pin?: string } = {}) => {
    const key = apiKey({ allowedModels: options.models ?? [], allowedRegions: options.regions ?? [] });
    return catalog.resolve(reference, {
      modality: 'chat',
      regionPin: options.pin,
      principal: { account: account(), key },
    });
  };
  const code = (expected: string) => expect.objectContaining({ code: expected });

  it('keeps the reference as it was sent', () => {
    expect(resolve('acme/chat@2026-01-01')).toMatchObject({
      reference: 'acme/chat@2026-01-01',
      version: { version: '2026-01-01' },
    });
  });

  it('is held to the models and regions of the key', () => {
    expect(resolve('acme/chat', { models: ['other/*', 'acme/*'] }).entry.slug).toBe('acme/chat');
    expect(() => resolve('acme/chat@2026-01-01', { models: ['other/*'] })).toThrow(code('model_not_allowed'));
    expect(() => resolve('acme/chat', { regions: ['eu-1'], pin: 'local' })).toThrow(code('region_not_allowed'));
  });

  it('is served in a region of the key, also when the call names none', () => {
    served['acme/chat'] = { regions: ['local', 'eu-1'], status: 'ready' };
    expect(resolve('acme/chat').regionPin).toBeUndefined();
    expect(resolve('acme/chat', { regions: ['us-1', 'eu-1'] }).regionPin).toBe('eu-1');
    expect(() => resolve('acme/chat', { regions: ['us-1'] })).toThrow(code('region_not_allowed'));
    served['acme/chat'] = { regions: [], status: 'unavailable' };
    // An outage must not end in a region that the key may not use.
    expect(() => resolve('acme/chat', { regions: ['us-1'] })).toThrow(code('model_unavailable'));
    expect(() => resolve('acme/chat', { pin: 'local' })).toThrow(code('model_unavailable'));
  });

  it('is held to the modality of the endpoint and to the regions that serve', () => {
    expect(() => resolve('acme/rank')).toThrow(code('wrong_modality'));
    expect(() => resolve('acme/chat', { pin: 'mars-1' })).toThrow(code('region_unavailable'));
    expect(resolve('acme/chat', { pin: 'local' }).regionPin).toBe('local');
  });
});

describe('aliases', () => {
  const principal = { account: account(), key: apiKey({ allowedModels: [], allowedRegions: [] }) };
  const options = { modality: 'chat' as const, regionPin: undefined, principal };

  beforeEach(async () => {
    catalog = await open([
      { name: 'gpt-4o-mini', model: 'acme/chat' },
      { name: 'gpt-4o', model: 'acme/chat@2026-01-01' },
    ]);
  });

  it('stand for a slug or a pin, and the answer keeps the name that was sent', () => {
    expect(catalog.resolve('gpt-4o-mini', options)).toMatchObject({
      reference: 'gpt-4o-mini',
      entry: { slug: 'acme/chat' },
      version: { version: '2026-06-01' },
    });
    expect(catalog.resolve('gpt-4o', options)).toMatchObject({ version: { version: '2026-01-01' } });
  });

  it('are shown with the model', () => {
    expect(catalog.list().map(({ aliases }) => aliases)).toEqual([['gpt-4o-mini'], [], []]);
    expect(catalog.get('gpt-4o-mini')).toMatchObject({ entry: { slug: 'acme/chat' }, aliases: ['gpt-4o-mini'] });
  });

  it('give no rights that the key does not have', () => {
    const narrow = { ...principal, key: { ...principal.key, allowedModels: ['other/*', 'gpt-4o-mini'] } };
    expect(() => catalog.resolve('gpt-4o-mini', { ...options, principal: narrow })).toThrow("'acme/chat'");
  });

  it('are named by the error when their model is gone', async () => {
    now = Date.parse('2027-11-15T08:00:00Z');
    await store.lifecycles.save(
      {
        slug: 'acme/chat',
        version: '2026-01-01',
        noticeAt: 1,
        deprecatedAt: 2,
        retiredAt: 3,
      },
      someEntry(),
    );
    catalog = await open([{ name: 'gpt-4o', model: 'acme/chat@2026-01-01' }]);
    expect(() => catalog.resolve('gpt-4o', options)).toThrow("'gpt-4o'");
  });

  it('of an account take precedence, for its keys only', () => {
    const own = { ...principal, account: account({ aliases: [{ name: 'gpt-4o-mini', model: 'other/chat' }] }) };
    const resolved = catalog.resolve('gpt-4o-mini', { ...options, principal: own });
    expect(resolved.entry.slug).toBe('other/chat');
    expect(catalog.resolve('gpt-4o-mini', options).entry.slug).toBe('acme/chat');
    expect(catalog.get('gpt-4o-mini', own.account).entry.slug).toBe('other/chat');
    expect(catalog.list({}, own.account).map(({ aliases }) => aliases)).toEqual([[], ['gpt-4o-mini'], []]);
  });

  it('do not hide a model of the catalog', () => {
    const own = { ...principal, account: account({ aliases: [{ name: 'acme/chat', model: 'other/chat' }] }) };
    expect(catalog.resolve('acme/chat', { ...options, principal: own }).entry.slug).toBe('acme/chat');
  });

  it('cannot be deprecated', async () => {
    await expect(catalog.deprecate('gpt-4o-mini', '2027-06-01', BY)).rejects.toMatchObject({ code: 'model_not_found' });
  });
});
