/** The stored shape: snake_case, times as ISO text or milliseconds, lists as JSON text, money as integer nano-USD. */
export interface AccountsTable {
  id: string;
  name: string;
  created_at: string;
  rpm: number | null;
  tpm: number | null;
  monthly_budget_nano_usd: number | null;
}

export interface ApiKeysTable {
  id: string;
  account_id: string;
  name: string;
  prefix: string;
  hash: string;
  scopes: string;
  allowed_models: string;
  allowed_regions: string;
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
  monthly_budget_nano_usd: number | null;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

export interface ModelLifecyclesTable {
  slug: string;
  version: string;
  notice_at: string;
  deprecated_at: string | null;
  retired_at: string | null;
}

export interface RevisionsTable {
  topic: string;
  value: number;
}

export interface Tables {
  accounts: AccountsTable;
  api_keys: ApiKeysTable;
  model_lifecycles: ModelLifecyclesTable;
  revisions: RevisionsTable;
}
