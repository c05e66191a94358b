/** What the API answers, as in docs/openapi.json. Only fields that the console reads. */
export interface Session {
  account: { id: string; name: string };
  key: { id: string; name: string; prefix: string };
  scopes: string[];
  csrf_token: string | null;
  expires_at: string | null;
  version: string;
  region: string;
}

export interface List<T> {
  data: T[];
  has_more?: boolean;
  last_id?: string | null;
  next_cursor?: string | null;
}

export interface UsageFigures {
  prompt_tokens: number;
  completion_tokens: number;
  cache_read_tokens: number;
  audio_seconds: number;
  requests: number;
  cost_usd: number;
}

export interface UsageBucket extends UsageFigures {
  start: string;
  end: string;
  model?: string;
  region?: string;
  key?: string;
  key_name?: string | null;
  account?: string;
  account_name?: string | null;
}

export interface UsageReport {
  buckets: UsageBucket[];
  totals: UsageFigures;
}

export interface Percentiles {
  p50: number;
  p90: number;
  p99: number;
}

export interface PerformanceFigures {
  requests: number;
  succeeded: number;
  client_errors: number;
  limited: number;
  cancelled: number;
  server_errors: number;
  latency_ms: Percentiles | null;
  first_token_ms: Percentiles | null;
}

export interface PerformanceReport {
  buckets: (PerformanceFigures & { start: string; end: string })[];
  totals: PerformanceFigures;
}

export interface RequestEntry {
  id: string;
  time: string;
  account_id: string;
  key: string;
  key_name: string | null;
  endpoint: string;
  model: string | null;
  version: string | null;
  region: string | null;
  status: number;
  code: string | null;
  prompt_tokens: number;
  completion_tokens: number;
  cache_read_tokens: number;
  audio_seconds: number;
  cost_usd: number;
  duration_ms: number;
  first_token_ms: number | null;
  replayed: boolean;
}

export interface Attempt {
  upstream: string | null;
  region: string;
  outcome: string;
  detail: string | null;
  duration_ms: number;
}

export interface RequestText {
  prompt: string | null;
  answer: string | null;
  truncated: boolean;
}

export type RequestDetail = RequestEntry & { attempts: Attempt[]; text: RequestText | null };

export type AuditValue = string | number | boolean | string[] | null;

export interface AuditChange {
  field: string;
  before: AuditValue;
  after: AuditValue;
}

export interface AuditEntry {
  id: string;
  time: string;
  action: string;
  via: string;
  actor: {
    type: string;
    id: string | null;
    name: string | null;
    account_id: string | null;
    account_name: string | null;
    host: string | null;
  };
  target: { type: string; id: string; name: string; account_id: string | null; account_name: string | null };
  changes: AuditChange[];
  request_id: string | null;
  address: string | null;
}

export interface LimitPair {
  rpm: number | null;
  tpm: number | null;
}

export interface OwnKey {
  id: string;
  account_id: string;
  name: string;
  scopes: string[];
  expires_at: string | null;
  limits: {
    concurrency: number | null;
    chat: LimitPair;
    embedding: LimitPair;
    rerank: LimitPair;
    audio: LimitPair;
  };
  budget: { limit_usd: number | null; spent_usd: number; remaining_usd: number | null; resets_at: string };
}

export interface Key {
  id: string;
  account_id: string;
  name: string;
  prefix: string;
  scopes: string[];
  allowed_models: string[];
  allowed_regions: string[];
  allowed_addresses: string[];
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
  monthly_budget_usd: number | null;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

export type NewKey = Key & { secret: string | null };

export interface Account {
  id: string;
  name: string;
  status: 'active' | 'suspended' | 'deleted';
  created_at: string;
  suspended_at: string | null;
  deleted_at: string | null;
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
  monthly_budget_usd: number | null;
  zero_retention: boolean;
  store_prompts: boolean;
  file_retention_days: number | null;
  aliases: { name: string; model: string }[];
}

export type Modality = 'chat' | 'embedding' | 'rerank' | 'audio';

export interface Model {
  id: string;
  owned_by: string;
  modality: Modality;
  description: string;
  context_length: number;
  max_output_tokens: number | null;
  dimensions: number | null;
  regions: string[];
  capabilities: { tools: boolean; json_mode: boolean; vision: boolean; structured_output: boolean };
  pricing: {
    prompt_per_million: number | null;
    completion_per_million: number | null;
    cache_read_per_million: number | null;
    audio_per_minute: number | null;
  };
  deprecated_at: string | null;
  version: string;
  versions: { version: string; deprecated_at: string | null; retired_at: string | null }[];
  status: 'ready' | 'cold' | 'unavailable';
  status_reason?: string;
  languages: string[];
  license: string;
  aliases: string[];
}

export interface StoredFile {
  id: string;
  purpose: 'batch' | 'transcription' | 'user_data' | 'vision' | 'message_batch';
  filename: string;
  bytes: number;
  created_at: string;
  expires_at: string;
}

export interface BatchProblem {
  code: string;
  message: string;
  param: string | null;
  line: number | null;
}

export interface Batch {
  id: string;
  endpoint: string;
  errors?: { data: BatchProblem[] };
  input_file_id: string;
  completion_window: string;
  status: string;
  output_file_id?: string | null;
  error_file_id?: string | null;
  created_at: number;
  in_progress_at?: number | null;
  expires_at: number;
  completed_at?: number | null;
  failed_at?: number | null;
  cancelled_at?: number | null;
  expired_at?: number | null;
  request_counts: { total: number; completed: number; failed: number };
  metadata: Record<string, string> | null;
}

export interface Engine {
  model: string;
  version: string;
  driver: string;
  status: 'ready' | 'loading' | 'cold' | 'unavailable';
  reason: string | null;
  process_ids: number[];
  processes: number;
  memory_bytes: number;
  loaded_at: string | null;
  load_ms: number | null;
  in_flight: number;
  queue_depth: number;
  tokens_per_second: { input: number; output: number };
  weights: {
    status: 'present' | 'absent' | 'pulling' | 'unreachable';
    bytes_on_disk: number;
    total_bytes: number | null;
    reason: string | null;
    retry_at: string | null;
  } | null;
  upstreams: {
    address: string;
    kind: string;
    region: string;
    healthy: boolean;
    breaker: string;
    in_flight: number;
    max_concurrency: number;
    problem: string | null;
    last_error: string | null;
  }[];
}

export interface SystemReport {
  version: string;
  region: string;
  started_at: string;
  ready: boolean;
  reasons: string[];
  runtime: {
    node: string;
    platform: string;
    arch: string;
    cpus: number;
    memory_bytes: number;
    free_memory_bytes: number;
    process_memory_bytes: number;
  };
  store: { kind: string };
  disk: { free_bytes: number; reserve_bytes: number; low: boolean };
  configuration: Record<string, unknown> & { files?: { quota_bytes?: number; quota_files?: number } };
}

export interface Counters {
  time: string;
  in_flight: number;
  last_minute: {
    requests: number;
    errors: number;
    prompt_tokens: number;
    completion_tokens: number;
    cost_usd: number;
  };
}
