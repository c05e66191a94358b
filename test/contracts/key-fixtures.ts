import type { Account, ApiKey } from '../../src/domain/principal.ts';

export const account = (changes: Partial<Account> = {}): Account => ({
  id: 'acct_1',
  name: 'first',
  createdAt: Date.UTC(2026, 0, 1),
  suspendedAt: null,
  deletedAt: null,
  erasedAt: null,
  rpm: null,
  tpm: null,
  concurrency: null,
  monthlyBudgetNanoUsd: null,
  zeroRetention: false,
  fileRetentionDays: null,
  aliases: [],
  ...changes,
});

export const apiKey = (changes: Partial<ApiKey> = {}): ApiKey => ({
  id: 'key_1',
  originalId: changes.id ?? 'key_1',
  accountId: 'acct_1',
  name: 'main',
  prefix: 'bao_sk_abcd',
  scopes: ['chat', 'embeddings'],
  allowedModels: ['baobab/*'],
  allowedRegions: ['local', 'eu-1'],
  allowedAddresses: ['10.0.0.0/8'],
  rpm: 10,
  tpm: null,
  concurrency: 3,
  monthlyBudgetNanoUsd: 9_007_199_254_740_991,
  createdAt: Date.UTC(2026, 0, 1),
  expiresAt: null,
  revokedAt: null,
  lastUsedAt: null,
  ...changes,
});
