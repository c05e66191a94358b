import { globSync, readFileSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { texts } from '../packages/console/src/texts/en/texts.ts';
import {
  DIMENSION_NAMES,
  DIMENSIONS,
  MEASURE_FIELDS,
  MEASURE_NAMES,
  MEASURES,
  type NOTHING_USED,
} from '../packages/core/src/domain/measures.ts';
import { openStore } from '../packages/server/src/adapters/store.ts';
import { usageToCsv } from '../packages/server/src/http/endpoints/usage/csv.ts';
import { createLedgerMetrics } from '../packages/server/src/metrics/ledger-metrics.ts';

const root = join(import.meta.dirname, '..');

it('are columns of the ledger, of its sums and of the request log; dimensions are those of the series', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-measures-'));
  const path = join(directory.path, 'baobab.db');
  await (await openStore({ kind: 'sqlite', path })).close();
  using raw = new DatabaseSync(path, { readOnly: true });
  const columnsOf = (table: string) =>
    raw
      .prepare('select name from pragma_table_info(?) order by cid')
      .all(table)
      .map(({ name }) => name);
  for (const table of ['ledger', 'request_log'])
    expect(columnsOf(table)).toEqual(expect.arrayContaining([...MEASURE_FIELDS]));
  for (const table of ['usage_days', 'usage_hours', 'usage_quarters']) {
    expect(columnsOf(table)).toEqual(['series_id', 'period', 'slot', 'requests', ...MEASURE_FIELDS, 'cost_nano_usd']);
  }
  const series = DIMENSION_NAMES.map((name) => DIMENSIONS[name].column);
  expect(columnsOf('ledger_series').toSorted()).toEqual(['id', ...series].toSorted());
});

it('are in the answers of the API, and models have their prices', () => {
  const { paths } = JSON.parse(readFileSync(join(root, 'docs/openapi.json'), 'utf8'));
  const answerOf = (path: string) => JSON.stringify(paths[path].get.responses[200]);
  for (const name of MEASURE_NAMES) {
    const field = `"${MEASURES[name].wireName}":{"type":"integer"}`;
    for (const path of ['/v1/usage', '/v1/requests', '/v1/requests/{id}']) expect(answerOf(path)).toContain(field);
    expect(answerOf('/v1/models')).toContain(`"${MEASURES[name].price.wireName}":`);
  }
});

it('are columns of the CSV of a report, with the name of each group that has one', () => {
  const window = { start: 0, end: 1, bucket: 'day' as const, groupBy: DIMENSION_NAMES };
  const [head] = usageToCsv({ window, buckets: [] }).split('\r\n');
  expect(head?.split(',')).toEqual([
    ...['start', 'end', 'model', 'region', 'key', 'key_name', 'account', 'account_name'],
    ...['requests', ...MEASURE_FIELDS, 'cost_usd'],
  ]);
});

it('have a metric each', async () => {
  const registry = new Registry();
  const count = createLedgerMetrics(registry);
  const used = Object.fromEntries(MEASURE_NAMES.map((name, index) => [name, index + 1])) as typeof NOTHING_USED;
  count({ model: 'acme/one', region: 'local', ...used, costNanoUsd: 7 });
  const found = await registry.metrics();
  MEASURE_NAMES.forEach((name, index) => {
    expect(found).toContain(
      `baobab_billed_${MEASURES[name].wireName}_total{model="acme/one",region="local"} ${index + 1}`,
    );
  });
});

it('have texts in the console', () => {
  for (const name of MEASURE_NAMES) {
    expect(texts.figures[MEASURES[name].short]).toEqual(expect.any(String));
    expect(texts.usage.metrics[MEASURES[name].short]).toEqual(expect.any(String));
  }
  for (const name of DIMENSION_NAMES) expect(texts.usage.groups[name]).toEqual(expect.any(String));
});

it('are named one by one only where they are declared, stored for the first time, and measured', () => {
  const files = globSync('packages/*/src/**/*.{ts,tsx}', { cwd: root }).filter((path) => !path.endsWith('.test.ts'));
  const naming = files.filter((path) => /audioSeconds|audio_seconds/.test(readFileSync(join(root, path), 'utf8')));
  expect(naming.toSorted()).toEqual([
    'packages/console/src/pages/requests/request-columns.tsx',
    'packages/core/src/domain/measures.ts',
    'packages/server/src/adapters/sql/shared/initial-tables.ts',
    'packages/server/src/inference/transcriptions.ts',
  ]);
});
