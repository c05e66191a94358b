import { describe, expect, it } from 'vitest';
import { errors } from '../../../packages/core/src/errors/errors.ts';
import { alive, callContext, embed, engineBed, testModel, until, use } from '../../fixtures/engine-bed.ts';

const MB = 1024 * 1024;

describe('a cold model', () => {
  it('loads once for all who wait', async () => {
    await using bed = engineBed({ processes: 1 });
    expect(bed.registry.status('test/echo@2026-01-01')).toEqual({ status: 'cold' });
    const requests = Array.from({ length: 20 }, () => bed.embed(['x']));
    await until(() => bed.registry.status('test/echo@2026-01-01').status === 'loading');
    await Promise.all(requests);
    expect(bed.loads()).toBe(1);
    const [report] = await bed.registry.list();
    expect(report).toMatchObject({ model: 'test/echo@2026-01-01', status: 'ready', inFlight: 0, queueDepth: 0 });
    expect(report?.memoryBytes).toBeGreaterThan(20 * MB);
    expect(report?.loadMs).toBeGreaterThan(0);
  });

  it('goes on loading when the first one who asked has left', async () => {
    await using bed = engineBed();
    const client = new AbortController();
    const gone = expect(bed.embed(['x'], callContext({ signal: client.signal }))).rejects.toMatchObject({
      code: 'client_cancelled',
    });
    client.abort();
    await gone;
    await bed.registry.warm([bed.model]);
    expect(bed.registry.status('test/echo@2026-01-01')).toMatchObject({ status: 'ready', device: { backend: 'cpu' } });
  });

  it('whose weights cannot be had is unavailable for a while, then tried again', async () => {
    let reachable = false;
    const bed = engineBed({
      settings: { retryUnavailableSeconds: 3 },
      weights: {
        async ensure() {
          if (!reachable) throw errors.modelUnavailable('test/echo', 'its weights cannot be fetched');
          return { directory: bed.directory };
        },
      },
    });
    await using _ = bed;
    const waiting = Array.from({ length: 3 }, () => bed.embed(['x']));
    for (const { status } of await Promise.allSettled(waiting)) expect(status).toBe('rejected');
    expect(bed.registry.status('test/echo@2026-01-01')).toEqual({
      status: 'unavailable',
      reason: expect.stringContaining('its weights cannot be fetched'),
    });
    reachable = true;
    await expect(bed.embed(['x'])).rejects.toMatchObject({ code: 'model_unavailable' });
    await until(() => bed.registry.status('test/echo@2026-01-01').status === 'cold');
    expect(await bed.embed(['x'])).toMatchObject({ tokens: [1] });
  });

  it('that its driver refuses is unavailable: briefly for clients, with reason and remedy for operators', async () => {
    await using bed = engineBed({ settings: { retryUnavailableSeconds: 3 } });
    bed.touch('refuse-load');
    const failure = await bed.embed(['x']).catch((error: Error) => error);
    expect(failure).toMatchObject({ code: 'model_unavailable' });
    expect((failure as Error).message).not.toContain('/some/path');
    const lines = bed.logged.filter((line) => line.includes('/some/path') && !line.includes('"err"'));
    expect(lines).toEqual([expect.stringMatching(/^model not loaded .*"remedy":"Check 'engine' of its catalog entry/)]);
    const [report] = await bed.registry.list();
    expect(report?.reason).toMatch(/^secret detail in \/some\/path\. Check 'engine' .* models verify test\/echo$/);
    expect(bed.registry.status('test/echo@2026-01-01').reason).not.toContain('/some/path');
    bed.remove('refuse-load');
    await until(() => bed.registry.status('test/echo@2026-01-01').status === 'cold');
    expect(await bed.embed(['x'])).toMatchObject({ tokens: [1] });
  });

  it('that crashes while it loads is unavailable', async () => {
    await using bed = engineBed();
    bed.touch('crash-on-load');
    await expect(bed.embed(['x'])).rejects.toThrow('its engine could not be started: it was killed');
  });
});

describe('an idle model', () => {
  /** Its engine process, which cannot be unloaded before this returns. */
  async function pidAfterUse(bed: ReturnType<typeof engineBed>): Promise<number> {
    using lease = await bed.registry.acquire(bed.model, callContext());
    await embed(lease.engine, ['x']);
    const [pid = 0] = await bed.pids();
    expect(pid).toBeGreaterThan(0);
    return pid;
  }

  it('is unloaded after its time and loaded again by the next request', async () => {
    await using bed = engineBed({ processes: 1, settings: { idleUnloadSeconds: 0.3 } });
    const pid = await pidAfterUse(bed);
    await until(() => !alive(pid));
    await until(() => bed.registry.status('test/echo@2026-01-01').status === 'cold');
    expect(await bed.embed(['again'])).toMatchObject({ tokens: [5] });
    expect(bed.loads()).toBe(2);
  });

  it('is loaded again for a request that comes while it is unloaded', async () => {
    await using bed = engineBed({ processes: 1, settings: { idleUnloadSeconds: 0.3 } });
    bed.touch('slow-dispose');
    const pid = await pidAfterUse(bed);
    await until(() => bed.registry.status('test/echo@2026-01-01').status === 'unloading');
    expect(alive(pid)).toBe(true);
    expect(await bed.embed(['next'])).toMatchObject({ tokens: [4] });
    expect(alive(pid)).toBe(false);
    expect(bed.loads()).toBe(2);
  });

  it('stays when it is used, and when it is one of the warm models', async () => {
    await using bed = engineBed({ processes: 1, settings: { idleUnloadSeconds: 0.2 } });
    const warm = testModel('test/warm');
    await bed.registry.warm([warm]);
    const lease = await bed.registry.acquire(bed.model, callContext());
    await embed(lease.engine, ['slow:700']);
    expect(bed.registry.status('test/echo@2026-01-01').status).toBe('ready');
    expect(bed.registry.status('test/warm@2026-01-01').status).toBe('ready');
    lease[Symbol.dispose]();
  });
});

describe('a model that an operator unloads', () => {
  it('ends the requests that run first, and says so meanwhile', async () => {
    await using bed = engineBed({ processes: 1 });
    const lease = await bed.registry.acquire(bed.model, callContext());
    const [pid = 0] = await bed.pids();
    const report = async () => (await bed.registry.list())[0];
    await bed.registry.unload(bed.model);
    expect(await report()).toMatchObject({ status: 'unloading', inFlight: 1 });
    expect(await embed(lease.engine, ['still here'])).toMatchObject({ tokens: [10] });
    expect(alive(pid)).toBe(true);
    lease[Symbol.dispose]();
    await until(() => bed.registry.status('test/echo@2026-01-01').status === 'cold');
    expect(alive(pid)).toBe(false);
  });

  it('does not hold up the end of the service', async () => {
    await using bed = engineBed({ processes: 1 });
    await bed.registry.acquire(bed.model, callContext());
    await bed.registry.unload(bed.model);
    await bed.registry.close(10);
    expect(await bed.registry.list()).toMatchObject([{ status: 'cold' }]);
  });
});

describe('the memory budget', () => {
  it('unloads the least recently used model before another one loads', async () => {
    // Each process of the scripted driver is counted with 96 MB until it has settled.
    await using bed = engineBed({ processes: 1, settings: { memoryBudgetMb: 200 } });
    const [first, second, third] = ['test/first', 'test/second', 'test/third'].map((slug) => testModel(slug));
    for (const model of [first, second, third]) {
      if (model !== undefined) await use(bed.registry, { model }, (engine) => embed(engine, ['x']));
    }
    const status = (slug: string) => bed.registry.status(`${slug}@2026-01-01`).status;
    expect([status('test/first'), status('test/second'), status('test/third')]).toEqual(['cold', 'ready', 'ready']);
  });

  it('refuses a model that cannot fit, with the numbers', async () => {
    await using bed = engineBed({ settings: { memoryBudgetMb: 50 } });
    await expect(bed.embed(['x'])).rejects.toMatchObject({
      status: 503,
      message: expect.stringContaining('needs about 192 MB of memory, and models may use 50 MB'),
    });
  });

  it('restarts an engine that outgrew it by far', async () => {
    await using bed = engineBed({ processes: 1, settings: { memoryBudgetMb: 150, idleUnloadSeconds: 10 } });
    const lease = await bed.registry.acquire(bed.model, callContext());
    await embed(lease.engine, ['x']);
    const [pid = 0] = await bed.pids();
    await embed(lease.engine, ['hog-once:400']);
    await until(() => !alive(pid));
    expect(await embed(lease.engine, ['back'])).toMatchObject({ tokens: [4] });
    lease[Symbol.dispose]();
  });
});

describe('the queue', () => {
  it('is bounded: more than it holds get 429, the others are served', async () => {
    await using bed = engineBed({ processes: 1, settings: { queueLength: 5 } });
    const long = { ...callContext(), work: { tokens: 4_096 } };
    const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => bed.embed(['x'], long)));
    const refused = outcomes.filter(({ status }) => status === 'rejected');
    expect(refused).toHaveLength(3);
    for (const outcome of refused)
      expect(outcome).toMatchObject({ reason: { code: 'capacity_exceeded', status: 429 } });
  });

  it('has room for eight short requests instead of a long one', async () => {
    await using bed = engineBed({ processes: 1, settings: { queueLength: 1 } });
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => bed.embed(['x'])));
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(2);
  });

  it('answers 504 when the model takes longer to load than a request may wait', async () => {
    await using bed = engineBed({ settings: { queueTimeoutSeconds: 0.2 } });
    bed.touch('hang-on-load');
    await expect(bed.embed(['x'])).rejects.toMatchObject({ code: 'upstream_timeout', status: 504 });
  });
});

describe('closing', () => {
  it('lets running requests end, refuses new ones and leaves no process', async () => {
    await using bed = engineBed();
    await bed.embed(['warm']);
    const pids = await bed.pids();
    const running = bed.embed(['wait-for:end']);
    await until(async () => (await bed.registry.list())[0]?.inFlight === 1);
    const closing = bed.registry.close(5_000);
    await expect(bed.embed(['late'])).rejects.toThrow('the service is stopping');
    bed.touch('end');
    expect(await running).toMatchObject({ tokens: [12] });
    await closing;
    expect(pids.some(alive)).toBe(false);
  });
});
