import { type Kysely, sql } from 'kysely';

/** What requests are measured by, and what they cost. */
export const INITIAL_MEASURES: readonly string[] = [
  'prompt_tokens',
  'completion_tokens',
  'cache_read_tokens',
  'audio_seconds',
  'cost_nano_usd',
];

/** Columns of a table that holds them. */
export const measureColumns = INITIAL_MEASURES.map((name) => `${name} bigint not null`).join(',\n    ');

/** First columns, and what is added to the time behind them: one index for each set of filters, and no other that serves it (see `audit-log.ts`). */
const AUDIT_FILTERS: readonly [columns: readonly string[], shift: number][] = [
  [[], 0],
  [['target_id', 'action'], 1],
  [['target_id'], 2],
  [['actor_id', 'account_id', 'action'], 3],
  [['actor_id', 'account_id'], 4],
  [['actor_id', 'action'], 5],
  [['actor_id'], 6],
  [['account_id', 'action'], 7],
  [['account_id'], 8],
  [['action'], 9],
];

const AUDIT_INDEXES = AUDIT_FILTERS.map(([columns, shift]) => {
  const name = `audit_log_by_${columns.length === 0 ? 'time' : columns.join('_and_')}`;
  return `create index ${name} on audit_log (${[...columns, `(time_ms + ${shift})`, 'id'].join(', ')})`;
});

const IDENTITY = [
  `create table accounts (
    id text primary key not null,
    name text not null unique,
    created_at_ms bigint not null,
    weight integer not null default 1,
    rpm bigint,
    tpm bigint,
    concurrency bigint,
    monthly_budget_nano_usd bigint,
    suspended_at_ms bigint,
    zero_retention integer not null default 0,
    store_prompts integer not null default 0,
    file_retention_days bigint,
    aliases text not null default '[]',
    dialect text,
    truncate_inputs text,
    deleted_at_ms bigint,
    erased_at_ms bigint
  )`,
  'create index accounts_by_creation on accounts (created_at_ms, id)',
  'create index accounts_to_erase on accounts (id) where deleted_at_ms is not null and erased_at_ms is null',
  `create table api_keys (
    id text primary key not null,
    original_id text not null,
    account_id text not null references accounts,
    name text not null,
    prefix text not null,
    hash text not null unique,
    scopes text not null,
    allowed_models text not null,
    allowed_regions text not null,
    allowed_addresses text not null default '[]',
    rpm bigint,
    tpm bigint,
    concurrency bigint,
    monthly_budget_nano_usd bigint,
    priority text not null default 'interactive',
    dialect text,
    truncate_inputs text,
    created_at_ms bigint not null,
    expires_at_ms bigint,
    revoked_at_ms bigint,
    last_used_at_ms bigint
  )`,
  'create index api_keys_by_account on api_keys (account_id, created_at_ms, id)',
  'create index api_keys_by_creation on api_keys (created_at_ms, id)',
  'create index api_keys_by_original on api_keys (original_id)',
  `create table sessions (
    hash text primary key not null,
    key_id text not null,
    created_at_ms bigint not null,
    expires_at_ms bigint not null
  )`,
  'create index sessions_by_expiry on sessions (expires_at_ms)',
  'create index sessions_by_key on sessions (key_id, created_at_ms)',
  `create table model_lifecycles (
    slug text not null,
    version text not null,
    notice_at_ms bigint not null,
    deprecated_at_ms bigint,
    retired_at_ms bigint,
    constraint model_lifecycles_key primary key (slug, version)
  )`,
  `create table revisions (
    topic text primary key not null,
    value bigint not null
  )`,
  `create table key_changes (
    revision integer primary key not null,
    account_id text not null,
    key_id text,
    hash text
  )`,
  `create table audit_log (
    id text primary key not null,
    time_ms bigint not null,
    action text not null,
    via text not null,
    actor_id text not null,
    actor_name text,
    actor_account_id text,
    actor_account_name text,
    actor_host text,
    target_kind text not null,
    target_id text not null,
    target_name text not null,
    account_id text,
    account_name text,
    changes text not null,
    request_id text,
    address text
  )`,
  ...AUDIT_INDEXES,
];

const REQUESTS = [
  `create table request_log (
    id text primary key not null,
    time_ms bigint not null,
    five_minutes integer not null,
    hour integer not null,
    account_id text not null,
    series_id bigint not null,
    version text,
    endpoint text not null,
    status integer not null,
    code text,
    message text,
    ${measureColumns},
    duration_ms bigint not null,
    duration_bin integer not null,
    first_token_ms bigint,
    first_token_bin integer,
    replayed integer not null,
    attempts text
  )`,
  'create index request_log_by_account on request_log (account_id, time_ms, id)',
  // Of all accounts. Expressions, so that a page of one account cannot choose them, whatever the statistics say: see `request-log.ts`.
  'create index request_log_by_time on request_log ((time_ms + 0), id)',
  'create index request_log_durations on request_log (account_id, hour, status, duration_bin, five_minutes, series_id)',
  'create index request_log_failed on request_log (account_id, time_ms, id) where status >= 400',
  'create index request_log_failed_by_time on request_log ((time_ms + 0), id) where status >= 400',
  `create index request_log_first_tokens on request_log (account_id, hour, first_token_bin, five_minutes, series_id)
    where first_token_bin is not null`,
  `create table request_texts (
    request_id text primary key not null,
    account_id text not null,
    time_ms bigint not null,
    prompt text,
    answer text,
    truncated integer not null,
    bytes bigint not null
  )`,
  'create index request_texts_by_account on request_texts (account_id)',
  'create index request_texts_by_time on request_texts (time_ms)',
];

const FILES = [
  `create table files (
    id text primary key not null,
    account_id text not null references accounts,
    purpose text not null,
    filename text not null,
    bytes bigint not null,
    sha256 text not null,
    blob_key text not null unique,
    created_at_ms bigint not null,
    expires_at_ms bigint not null,
    discarded_at_ms bigint
  )`,
  'create index files_by_account on files (account_id, id) where discarded_at_ms is null',
  'create index files_by_expiry on files (expires_at_ms) where discarded_at_ms is null',
  'create index files_by_purpose on files (account_id, purpose, id) where discarded_at_ms is null',
  'create index files_discarded on files (id) where discarded_at_ms is not null',
  `create table file_attachments (
    file_id text not null references files,
    job_id text not null,
    job_kind text not null,
    owner_id text,
    lease_until_ms bigint,
    constraint file_attachments_key primary key (file_id, job_id)
  )`,
  'create index file_attachments_by_job on file_attachments (job_id)',
  `create table stored_amounts (
    account_id text not null references accounts,
    kind text not null,
    items bigint not null,
    bytes bigint not null,
    constraint stored_amounts_key primary key (account_id, kind)
  )`,
  `create table idempotency (
    id text primary key not null,
    account_id text not null default '',
    body_hash text not null,
    run_id text not null,
    owner_id text not null,
    lease_until_ms bigint not null,
    expires_at_ms bigint not null,
    status integer,
    headers text,
    body blob,
    bytes bigint not null default 0
  )`,
  'create index idempotency_by_expiry on idempotency (expires_at_ms)',
  'create index idempotency_by_owner on idempotency (owner_id, status)',
];

const BATCHES = [
  `create table batches (
    id text primary key not null,
    account_id text not null references accounts,
    key_id text not null,
    endpoint text not null,
    input_file_id text not null,
    completion_window text not null,
    metadata text,
    status text not null,
    problems text not null,
    output_file_id text,
    error_file_id text,
    result_lifetime_ms bigint,
    total bigint not null,
    completed bigint not null,
    failed bigint not null,
    expired bigint not null default 0,
    bills text,
    created_at_ms bigint not null,
    expires_at_ms bigint not null,
    in_progress_at_ms bigint,
    finalizing_at_ms bigint,
    cancelling_at_ms bigint,
    ended_at_ms bigint,
    owner_id text,
    lease_until_ms bigint not null default 0
  )`,
  'create index batches_active on batches (account_id, id, lease_until_ms) where ended_at_ms is null',
  'create index batches_by_account on batches (account_id, id)',
  `create table batch_lines (
    batch_id text not null references batches,
    line bigint not null,
    failed integer not null,
    blob_key text not null,
    start bigint not null,
    bytes bigint not null,
    constraint batch_lines_key primary key (batch_id, line)
  )`,
  `create table batch_slices (
    batch_id text not null references batches,
    first_line bigint not null,
    last_line bigint not null,
    start bigint not null,
    bytes bigint not null,
    owner_id text,
    lease_until_ms bigint not null,
    constraint batch_slices_key primary key (batch_id, first_line)
  )`,
];

const RESPONSES = [
  `create table responses (
    id text primary key not null,
    account_id text not null references accounts,
    key_id text not null,
    previous_id text,
    conversation_id text,
    status text not null,
    background integer not null,
    created_at_ms bigint not null,
    expires_at_ms bigint not null,
    input text not null,
    content text not null,
    bytes bigint not null,
    request text,
    attempts integer not null,
    owner_id text,
    lease_until_ms bigint not null
  )`,
  'create index responses_active on responses (id, lease_until_ms) where request is not null',
  'create index responses_by_account on responses (account_id, id)',
  'create index responses_by_expiry on responses (expires_at_ms)',
  `create table response_events (
    response_id text not null references responses,
    first_sequence integer not null,
    last_sequence integer not null,
    content text not null,
    bytes bigint not null,
    constraint response_events_key primary key (response_id, first_sequence)
  )`,
  `create table conversations (
    id text primary key not null,
    account_id text not null references accounts,
    metadata text not null,
    created_at_ms bigint not null,
    expires_at_ms bigint not null,
    bytes bigint not null
  )`,
  'create index conversations_by_account on conversations (account_id, id)',
  'create index conversations_by_expiry on conversations (expires_at_ms)',
  `create table conversation_items (
    conversation_id text not null references conversations,
    id text not null,
    position bigint not null,
    content text not null,
    constraint conversation_items_key primary key (conversation_id, id)
  )`,
  'create index conversation_items_in_order on conversation_items (conversation_id, position)',
];

const JOBS = [
  `create table job_turns (
    job text primary key not null,
    next_at_ms bigint not null
  )`,
  `create table servers (
    id text primary key not null,
    name text not null,
    version text not null,
    commit_id text,
    started_at_ms bigint not null,
    seen_at_ms bigint not null,
    readiness text not null,
    problems text not null,
    clock_ahead_ms bigint not null
  )`,
];

/**
 * The tables of both databases but for the ledger and its sums, as SQLite writes them: PostgreSQL has other names for some types.
 * A released table is never edited here: a migration changes it.
 */
export const INITIAL_TABLES: readonly string[] = [IDENTITY, FILES, BATCHES, RESPONSES, REQUESTS, JOBS].flat();

export async function runAll(db: Kysely<unknown>, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await sql.raw(statement).execute(db);
}
