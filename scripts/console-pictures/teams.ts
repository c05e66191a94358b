import { type Api, json } from './api.ts';

export interface TeamKey {
  id: string;
  name: string;
  secret: string;
  account: string;
}

interface KeyPlan {
  name: string;
  scopes?: string[];
  rpm?: number;
  monthly_budget_usd?: number;
  allowed_models?: string[];
  expires_at?: string;
}

const days = (count: number) => new Date(Date.now() + count * 86_400_000).toISOString();

const EVERYTHING = ['chat', 'embeddings', 'rerank', 'audio', 'files', 'batches', 'models', 'usage'];

/** The accounts of the pictures and their keys. */
const TEAMS: Record<string, { settings: object; keys: KeyPlan[] }> = {
  Helpdesk: {
    settings: { monthly_budget_usd: 40, rpm: 600, tpm: 400_000, store_prompts: true },
    keys: [
      { name: 'mara', scopes: [...EVERYTHING, 'keys', 'prompts'] },
      { name: 'helpdesk-web', monthly_budget_usd: 30 },
      { name: 'helpdesk-nightly', scopes: ['embeddings', 'rerank', 'files', 'batches', 'models', 'usage'] },
    ],
  },
  'Library search': {
    settings: { monthly_budget_usd: 25, rpm: 300 },
    keys: [
      { name: 'catalogue-index', allowed_models: ['baobab/*'] },
      { name: 'reading-room', rpm: 4 },
      { name: 'ana-notebook', expires_at: days(12), monthly_budget_usd: 5 },
    ],
  },
  'Radio archive': {
    settings: { file_retention_days: 14, monthly_budget_usd: 80, tpm: 200_000 },
    keys: [{ name: 'transcribe-shows', scopes: ['audio', 'files', 'models', 'usage'] }, { name: 'editors' }],
  },
  بحث: { settings: { zero_retention: true, monthly_budget_usd: 10 }, keys: [{ name: 'مفتاح التجارب' }] },
};

export async function createTeams(api: Api, adminKey: string): Promise<TeamKey[]> {
  const made: TeamKey[] = [];
  for (const [account, { settings, keys }] of Object.entries(TEAMS)) {
    await json(api('admin/accounts', adminKey, { name: account, ...settings }));
    for (const key of keys) {
      const { id, secret } = await json<{ id: string; secret: string }>(
        api('admin/keys', adminKey, { account, ...key }),
      );
      made.push({ id, name: key.name, secret, account });
    }
  }
  // Left by someone who has gone: shows what a revoked key and a suspended account look like.
  const { id } = await json<{ id: string }>(
    api('admin/keys', adminKey, { account: 'Library search', name: 'old-crawler' }),
  );
  await json(api(`admin/keys/${id}/revoke`, adminKey, {}));
  await json(api('admin/accounts', adminKey, { name: 'Trial 2025' }));
  await json(api('admin/accounts/Trial%202025/suspend', adminKey, {}));
  return made;
}
