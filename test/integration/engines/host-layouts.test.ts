import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { scriptedWithTrials } from '../../fixtures/drivers/scripted-driver.ts';
import { embed, engineBed, testModel, until, use } from '../../fixtures/engine-bed.ts';

const folder = mkdtempSync(join(tmpdir(), 'baobab-layouts-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const newFile = () => join(folder, `machine-${files++}.json`);

/** Idle models are looked at every quarter of a second, and unloaded never within a test. */
const settings = { idleUnloadSeconds: 0.5 };
const bedOf = (machineFile: string, tokensPerSecond: readonly [number, number] | undefined) => {
  const bed = engineBed({ driver: scriptedWithTrials, machineFile, settings });
  const [one, two] = tokensPerSecond ?? [0, 0];
  const results = [
    { processes: 1, threads: 1, tokensPerSecond: one },
    { processes: 2, threads: 1, tokensPerSecond: two },
  ];
  if (tokensPerSecond !== undefined) writeFileSync(join(bed.directory, 'trial.json'), JSON.stringify(results));
  // Keeps it loaded.
  void bed.registry.warm([bed.model]);
  return bed;
};
const measured = (file: string) => {
  try {
    return Object.values(JSON.parse(readFileSync(file, 'utf8')))[0] as { best: object; fingerprint: string };
  } catch {
    return undefined;
  }
};

describe('the layout of a model', () => {
  it('changes to the fastest while the model is idle', async () => {
    const file = newFile();
    await using bed = bedOf(file, [100, 150]);
    await bed.embed(['a']);
    await until(async () => (await bed.pids()).length === 2);
    expect(measured(file)).toMatchObject({ best: { processes: 2, threads: 1 } });
    await bed.embed(['a']);
  });

  it('stays when another one is hardly faster, and is the faster one at the next start', async () => {
    const file = newFile();
    {
      await using bed = bedOf(file, [100, 105]);
      await bed.embed(['a']);
      await until(() => measured(file) !== undefined);
      expect(await bed.pids()).toHaveLength(1);
      expect(bed.loads()).toBe(1);
    }
    await using next = bedOf(file, undefined);
    await next.embed(['a']);
    await until(async () => (await next.pids()).length === 2);
    expect(next.logged.filter((line) => line.includes('measured the layouts'))).toEqual([]);
  });

  it('is measured again when it was found with another runtime or processor', async () => {
    const file = newFile();
    const fact = { fingerprint: 'another machine', best: { processes: 3, threads: 1 } };
    writeFileSync(file, JSON.stringify({ 'layout.test/echo@2026-01-01': fact }));
    await using bed = bedOf(file, [100, 90]);
    await bed.embed(['a']);
    await until(() => measured(file)?.fingerprint !== 'another machine');
    expect(measured(file)).toMatchObject({ best: { processes: 1, threads: 1 } });
    expect(await bed.pids()).toHaveLength(1);
  });

  it('is not measured while requests run', async () => {
    const file = newFile();
    await using bed = bedOf(file, [100, 150]);
    const busy = new AbortController();
    const running = bed.embed(['slow:60000'], {
      requestId: 'r',
      accountId: 'a',
      keyId: 'k',
      priority: 'interactive',
      signal: busy.signal,
    });
    const caught = running.catch(() => {});
    await until(async () => (await bed.registry.list())[0]?.inFlight === 1);
    // The same look at idle models that would measure unloads a model that nobody keeps loaded.
    const other = testModel('test/other');
    for (let look = 0; look < 2; look += 1) {
      await use(bed.registry, { model: other }, (engine) => embed(engine, ['a']));
      await until(() => bed.registry.status('test/other@2026-01-01').status === 'cold');
    }
    expect(measured(file)).toBeUndefined();
    busy.abort();
    await caught;
    await until(() => measured(file) !== undefined);
  });

  it('stays as it is when the measurement fails, which is logged once', async () => {
    await using bed = bedOf(newFile(), undefined);
    await bed.embed(['a']);
    const failures = () => bed.logged.filter((line) => line.includes('could not be measured'));
    await until(() => failures().length > 0);
    await bed.embed(['a']);
    expect(failures()).toHaveLength(1);
    expect(await bed.pids()).toHaveLength(1);
  });
});
