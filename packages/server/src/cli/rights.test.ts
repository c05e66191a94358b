import { definedFields } from '@baobab/core/domain/principal.ts';
import { SCOPES } from '@baobab/core/domain/scopes.ts';
import { expect, it } from 'vitest';
import { account, apiKey } from '../../../../test/contracts/key-fixtures.ts';
import { accountLimitsText, accountSettingsFrom, defaultsText, keyLimitsText, rightsFrom } from './rights.ts';

it('reads the given rights and leaves the others undefined', () => {
  expect(definedFields(rightsFrom({}))).toEqual({});
  expect(
    definedFields(rightsFrom({ rpm: '60', 'monthly-budget': '12.5', models: 'a/*, b/c', scopes: 'chat' })),
  ).toEqual({
    rpm: 60,
    monthlyBudgetNanoUsd: 12_500_000_000,
    allowedModels: ['a/*', 'b/c'],
    scopes: ['chat'],
  });
  expect(rightsFrom({ priority: 'low' }).priority).toBe('low');
  expect(() => rightsFrom({ priority: 'high' })).toThrow('--priority must be interactive or low');
  const truncateInputs = (given: string) => rightsFrom({ 'truncate-inputs': given }).truncateInputs;
  expect(['start', 'none', 'default'].map(truncateInputs)).toEqual(['start', 'none', null]);
  expect(() => truncateInputs('yes')).toThrow('--truncate-inputs must be start, end, none or default');
  expect(rightsFrom({ expires: '2030-01-02' }).expiresAt).toBe(Date.UTC(2030, 0, 2));
});

it("takes limits away by the word 'none', and not by an empty list", () => {
  const all = { rpm: 'none', tpm: 'none', concurrency: 'none', 'monthly-budget': 'none', expires: 'none' };
  expect(definedFields(rightsFrom({ ...all, models: 'none', regions: 'none', addresses: 'none' }))).toEqual({
    rpm: null,
    tpm: null,
    concurrency: null,
    monthlyBudgetNanoUsd: null,
    expiresAt: null,
    allowedModels: [],
    allowedRegions: [],
    allowedAddresses: [],
  });
  for (const option of ['models', 'regions', 'scopes']) {
    expect(() => rightsFrom({ [option]: ' ,' })).toThrow(`--${option} must name at least one`);
  }
  expect(rightsFrom({ scopes: 'all' }).scopes).toEqual(SCOPES);
  expect(() => rightsFrom({ scopes: 'none' })).toThrow("there is no scope 'none'; --scopes takes chat, ");
  expect(() => rightsFrom({ scopes: 'chat,embedings' })).toThrow(
    "there is no scope 'embedings'; did you mean 'embeddings'?",
  );
});

it('reads the settings of an account', () => {
  expect(
    accountSettingsFrom({ 'zero-retention': 'yes', 'file-retention-days': '7', rpm: '5', weight: '10' }),
  ).toMatchObject({
    zeroRetention: true,
    fileRetentionDays: 7,
    weight: 10,
    rpm: 5,
    tpm: undefined,
  });
  const removed = accountSettingsFrom({ 'zero-retention': 'no', 'file-retention-days': 'none' });
  expect(removed).toMatchObject({ zeroRetention: false, fileRetentionDays: null });
  expect(accountSettingsFrom({ aliases: 'gpt-4o=acme/writer, whisper-1=openai/whisper-small' }).aliases).toEqual([
    { name: 'gpt-4o', model: 'acme/writer' },
    { name: 'whisper-1', model: 'openai/whisper-small' },
  ]);
  expect(accountSettingsFrom({ aliases: 'none' }).aliases).toEqual([]);
  expect(() => accountSettingsFrom({ aliases: 'gpt-4o' })).toThrow('--aliases must be like gpt-4o=acme/writer');
  expect(() => accountSettingsFrom({ 'zero-retention': 'maybe' })).toThrow('--zero-retention must be yes or no');
});

const rate = { rpm: 600, tpm: 200_000 };
const rules = {
  defaults: { chat: rate, audio: rate, embedding: { rpm: 1_200, tpm: 2_000_000 }, rerank: rate, concurrency: 0 },
  models: [{ slug: 'acme/writer', modality: 'chat' as const, limits: { rpm: 5 } }],
};
const none = { rpm: null, tpm: null, concurrency: null, monthlyBudgetNanoUsd: null };

it('prints the limits that hold for a key and where they were set', () => {
  const limits = (key: object, owner: object = {}) =>
    keyLimitsText(
      apiKey({ ...none, allowedRegions: [], allowedAddresses: [], ...key }),
      account({ ...none, ...owner }),
      rules,
    );
  expect(limits({})).toBe('default');
  expect(limits({ rpm: 60, monthlyBudgetNanoUsd: 5e9 })).toBe('60 rpm, default tpm, 5 USD/month');
  expect(limits({ rpm: 60, tpm: 9 }, { rpm: 50, concurrency: 3 })).toBe(
    '50 rpm (account), 9 tpm, 3 at a time (account)',
  );
  expect(limits({ monthlyBudgetNanoUsd: 5e9 }, { monthlyBudgetNanoUsd: 1e9 })).toBe('default, 1 USD/month (account)');
  expect(limits({ priority: 'low', allowedRegions: ['a', 'b'], allowedAddresses: ['10.0.0.0/8'] })).toBe(
    'default, low priority, in a,b, from 10.0.0.0/8',
  );
});

it('prints the limits of an account, and what the defaults are', () => {
  expect(accountLimitsText(account(none), rules)).toBe('default');
  expect(accountLimitsText(account({ ...none, rpm: 60, weight: 10 }), rules)).toBe('60 rpm, default tpm, weight 10');
  expect(defaultsText(rules)).toBe(
    'default: 600 rpm and 200000 tpm of each chat or rerank or audio model; ' +
      '1200 rpm and 2000000 tpm of each embedding model; 5 rpm of acme/writer. ' +
      'Requests (rpm) and tokens (tpm) a minute, for each key',
  );
});
