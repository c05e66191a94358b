import type { DimensionColumn, MeasureField } from '@baobab/core/domain/measures.ts';
import type { TruncateInputs } from '@baobab/core/domain/model.ts';
import type { Dialect, KeyPriority } from '@baobab/core/domain/principal.ts';
import type { Generated } from 'kysely';

/** The stored shape: snake_case, times in milliseconds since 1970 (`*_ms`), lists as JSON text, money as integer nano-USD. */
export interface AccountsTable {
  id: string;
  name: string;
  created_at_ms: number;
  weight: number;
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
  monthly_budget_nano_usd: number | null;
  suspended_at_ms: number | null;
  /** 0 or 1. */
  zero_retention: number;
  /** 0 or 1. */
  store_prompts: number;
  file_retention_days: number | null;
  aliases: string;
  dialect: Dialect | null;
  truncate_inputs: TruncateInputs | null;
  deleted_at_ms: number | null;
  erased_at_ms: number | null;
}

export interface ApiKeysTable {
  id: string;
  original_id: string;
  account_id: string;
  name: string;
  prefix: string;
  hash: string;
  scopes: string;
  allowed_models: string;
  allowed_regions: string;
  allowed_addresses: string;
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
  monthly_budget_nano_usd: number | null;
  priority: KeyPriority;
  dialect: Dialect | null;
  truncate_inputs: TruncateInputs | null;
  created_at_ms: number;
  expires_at_ms: number | null;
  revoked_at_ms: number | null;
  last_used_at_ms: number | null;
}

export interface ModelLifecyclesTable {
  slug: string;
  version: string;
  notice_at_ms: number;
  deprecated_at_ms: number | null;
  retired_at_ms: number | null;
}

export interface RevisionsTable {
  topic: string;
  value: number;
}

/** The last changes of keys and accounts. */
export interface KeyChangesTable {
  /** Revision of the topic `keys` after the change. */
  revision: number;
  account_id: string;
  /** Null: the account itself has changed. */
  key_id: string | null;
  hash: string | null;
}

export interface LedgerSeriesTable extends Record<DimensionColumn, string> {
  /** Chosen by the database. */
  id: Generated<number>;
}

type MeasureColumns = Record<MeasureField, number>;

export interface LedgerTable extends MeasureColumns {
  billing_id: string;
  request_id: string;
  time_ms: number;
  hour: number;
  day: number;
  month: number;
  version: string;
  endpoint: string;
  cost_nano_usd: number;
  pricing: string;
  discount_percent: number;
  status: number;
  duration_ms: number;
  first_token_ms: number | null;
  series_id: number;
}

/** What the ledger rows of one series and period add up to. A trigger of the ledger keeps it, in the transaction that adds the rows. */
export interface UsageSumsTable extends MeasureColumns {
  series_id: number;
  /** Since 1970, in the unit of the table. */
  period: number;
  /** Sums of rows that are added at once are in several slots, so that they do not wait for each other. */
  slot: number;
  requests: number;
  cost_nano_usd: number;
}

export interface FilesTable {
  id: string;
  account_id: string;
  purpose: string;
  filename: string;
  bytes: number;
  sha256: string;
  blob_key: string;
  created_at_ms: number;
  expires_at_ms: number;
  discarded_at_ms: number | null;
}

/** How much an account stores of each kind. Changed in the same transaction as the things that are counted. */
export interface StoredAmountsTable {
  account_id: string;
  kind: string;
  items: number;
  bytes: number;
}

export interface FileAttachmentsTable {
  file_id: string;
  job_id: string;
  job_kind: string;
  /** Null: held until it is detached. */
  owner_id: string | null;
  lease_until_ms: number | null;
}

export interface IdempotencyTable {
  id: string;
  account_id: string;
  body_hash: string;
  run_id: string;
  owner_id: string;
  lease_until_ms: number;
  expires_at_ms: number;
  status: number | null;
  /** Null while it runs, and for the usual headers of JSON. */
  headers: string | null;
  body: Uint8Array | null;
  /** Size of the body, here or in the blob store. */
  bytes: number;
}

export interface BatchesTable {
  id: string;
  account_id: string;
  key_id: string;
  endpoint: string;
  input_file_id: string;
  completion_window: string;
  metadata: string | null;
  status: string;
  problems: string;
  output_file_id: string | null;
  error_file_id: string | null;
  /** How long the output and error files are kept. */
  result_lifetime_ms: number | null;
  total: number;
  completed: number;
  failed: number;
  /** Those of the failed lines that did not run in time. */
  expired: number;
  /** JSON. Null until it has ended. */
  bills: string | null;
  created_at_ms: number;
  expires_at_ms: number;
  in_progress_at_ms: number | null;
  finalizing_at_ms: number | null;
  cancelling_at_ms: number | null;
  ended_at_ms: number | null;
  owner_id: string | null;
  /** The batch can be claimed from this time on. While processes work on its slices, that is never. */
  lease_until_ms: number;
}

export interface BatchLinesTable {
  batch_id: string;
  line: number;
  /** 0 or 1. */
  failed: number;
  blob_key: string;
  start: number;
  bytes: number;
}

export interface BatchSlicesTable {
  batch_id: string;
  first_line: number;
  last_line: number;
  start: number;
  bytes: number;
  owner_id: string | null;
  /** The slice can be claimed from this time on. */
  lease_until_ms: number;
}

export interface ServersTable {
  id: string;
  name: string;
  version: string;
  commit_id: string | null;
  started_at_ms: number;
  seen_at_ms: number;
  readiness: string;
  /** JSON: reasons and since when. */
  problems: string;
  clock_ahead_ms: number;
}

export interface JobTurnsTable {
  job: string;
  next_at_ms: number;
}

export interface SessionsTable {
  hash: string;
  key_id: string;
  created_at_ms: number;
  expires_at_ms: number;
}

/** Prompts and answers of accounts that keep them. */
export interface RequestTextsTable {
  request_id: string;
  account_id: string;
  time_ms: number;
  prompt: string | null;
  answer: string | null;
  /** 0 or 1: more was sent than is kept. */
  truncated: number;
  bytes: number;
}

export interface RequestLogTable extends MeasureColumns {
  id: string;
  time_ms: number;
  /** The time in units of five minutes. */
  five_minutes: number;
  /** The time in hours. */
  hour: number;
  account_id: string;
  /** A row of `ledger_series`, whose model and region are empty where they were not known. */
  series_id: number;
  version: string | null;
  endpoint: string;
  status: number;
  code: string | null;
  message: string | null;
  cost_nano_usd: number;
  duration_ms: number;
  /** See `domain/latency.ts`. */
  duration_bin: number;
  first_token_ms: number | null;
  first_token_bin: number | null;
  /** 0 or 1. */
  replayed: number;
  attempts: string | null;
}

export interface AuditLogTable {
  id: string;
  time_ms: number;
  action: string;
  via: string;
  actor_id: string;
  actor_name: string | null;
  actor_account_id: string | null;
  actor_account_name: string | null;
  actor_host: string | null;
  target_kind: string;
  target_id: string;
  target_name: string;
  /** Account of the target. */
  account_id: string | null;
  account_name: string | null;
  changes: string;
  request_id: string | null;
  address: string | null;
}

export interface ResponsesTable {
  id: string;
  account_id: string;
  key_id: string;
  previous_id: string | null;
  conversation_id: string | null;
  status: string;
  /** 0 or 1. */
  background: number;
  created_at_ms: number;
  expires_at_ms: number;
  input: string;
  content: string;
  /** Size of input, content and request, and of recorded events when it has ended. */
  bytes: number;
  /** Null: it has ended. */
  request: string | null;
  attempts: number;
  owner_id: string | null;
  /** A response that has not ended can be claimed from this time on. */
  lease_until_ms: number;
}

export interface ConversationsTable {
  id: string;
  account_id: string;
  metadata: string;
  created_at_ms: number;
  expires_at_ms: number;
  /** Size of its items. */
  bytes: number;
}

export interface ResponseEventsTable {
  response_id: string;
  first_sequence: number;
  last_sequence: number;
  content: string;
  bytes: number;
}

export interface ConversationItemsTable {
  conversation_id: string;
  id: string;
  position: number;
  content: string;
}

export interface Tables {
  accounts: AccountsTable;
  api_keys: ApiKeysTable;
  model_lifecycles: ModelLifecyclesTable;
  revisions: RevisionsTable;
  key_changes: KeyChangesTable;
  ledger_series: LedgerSeriesTable;
  ledger: LedgerTable;
  usage_days: UsageSumsTable;
  usage_hours: UsageSumsTable;
  usage_quarters: UsageSumsTable;
  idempotency: IdempotencyTable;
  files: FilesTable;
  stored_amounts: StoredAmountsTable;
  file_attachments: FileAttachmentsTable;
  batches: BatchesTable;
  batch_lines: BatchLinesTable;
  batch_slices: BatchSlicesTable;
  job_turns: JobTurnsTable;
  servers: ServersTable;
  responses: ResponsesTable;
  response_events: ResponseEventsTable;
  conversations: ConversationsTable;
  conversation_items: ConversationItemsTable;
  sessions: SessionsTable;
  request_log: RequestLogTable;
  request_texts: RequestTextsTable;
  audit_log: AuditLogTable;
}
