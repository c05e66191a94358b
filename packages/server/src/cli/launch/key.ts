import { usdNumber } from '@baobab/core/domain/money.ts';
import { type ApiAccess, ApiCallFailed, callApi } from '../api-client.ts';

interface Key {
  id: string;
  name: string;
  monthly_budget_usd: number | null;
  expires_at: string | null;
  revoked_at: string | null;
}

export interface ClientKey {
  secret: string;
  /** Null: none. Undefined: the caller's own key. */
  budgetUsd: number | null | undefined;
}

export interface ClientKeyOptions {
  name: string;
  /** Undefined: as it is. */
  budgetNanoUsd: number | undefined;
  /** Of a key that is new. */
  defaultBudgetUsd: number;
}

/** The newest that can be used. */
async function findKey(access: ApiAccess, name: string): Promise<Key | undefined> {
  const { data } = (await (await callApi(access, `keys?search=${encodeURIComponent(name)}`)).json()) as { data: Key[] };
  const now = Date.now();
  return data.findLast(
    (key) =>
      key.name === name && key.revoked_at === null && (key.expires_at === null || Date.parse(key.expires_at) > now),
  );
}

/**
 * A secret for a client with a budget of its own. The server keeps no secrets, so a known key is rotated: the new one shares the spending
 * of the old one, which stays valid for a client that still runs. A caller who may not make keys gives its own.
 */
export async function issueClientKey(access: ApiAccess, options: ClientKeyOptions): Promise<ClientKey> {
  const { name, budgetNanoUsd, defaultBudgetUsd } = options;
  const budget = budgetNanoUsd === undefined ? undefined : usdNumber(budgetNanoUsd);
  const post = async (path: string, body: object) =>
    (await (await callApi(access, path, { body })).json()) as Key & { secret: string };
  try {
    const known = await findKey(access, name);
    const {
      id,
      secret,
      monthly_budget_usd: given,
    } = known === undefined
      ? await post('keys', { name, scopes: ['inference', 'models'], monthly_budget_usd: budget ?? defaultBudgetUsd })
      : await post(`keys/${known.id}/rotate`, {});
    const isOther = budget !== undefined && budget !== given;
    if (isOther) await post(`keys/${id}`, { monthly_budget_usd: budget });
    return { secret, budgetUsd: isOther ? budget : given };
  } catch (error) {
    if (!(error instanceof ApiCallFailed) || error.status !== 403) throw error;
    return { secret: access.key, budgetUsd: undefined };
  }
}
