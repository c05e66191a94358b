import type { Kysely } from 'kysely';
import { INITIAL_MEASURES, INITIAL_TABLES, measureColumns, runAll } from '../../shared/initial-tables.ts';
import { createSums } from '../usage-sums.ts';

const LEDGER = [
  `create table ledger_series (
    id integer primary key not null,
    account_id text not null,
    key_id text not null,
    model text not null,
    region text not null,
    constraint ledger_series_names unique (account_id, key_id, model, region)
  )`,
  // Its rows are in the order in which they were added: the billing id is not the primary key.
  `create table ledger (
    billing_id text not null unique,
    request_id text not null,
    time_ms bigint not null,
    hour integer not null,
    day integer not null,
    month integer not null,
    version text not null,
    endpoint text not null,
    ${measureColumns},
    pricing text not null,
    discount_percent integer not null,
    status integer not null,
    duration_ms bigint not null,
    first_token_ms bigint,
    series_id integer not null references ledger_series,
    is_summed integer not null default 0
  )`,
  'create index ledger_by_time on ledger (time_ms)',
  // Reports of all accounts that name a key or a model. New series are rare.
  'create index ledger_series_by_key on ledger_series (key_id)',
  'create index ledger_series_by_model on ledger_series (model)',
];

export const up = (db: Kysely<unknown>): Promise<void> =>
  runAll(db, [...INITIAL_TABLES, ...LEDGER, ...createSums(INITIAL_MEASURES)]);
