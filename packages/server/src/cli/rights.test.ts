import { definedFields } from '@baobab/core/domain/principal.ts';
import { SCOPES } from '@baobab/core/domain/scopes.ts';
import { expect, it } from 'vitest';
import { accountSettingsFrom, limitsText, rightsFrom } from './rights.ts';

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
  expect(() => rightsFrom({ scopes: 'none' })).toThrow(/unknown scope 'none'/);
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

it('prints limits in a short form', () => {
  const account = { rpm: null, tpm: null, concurrency: null, monthlyBudgetNanoUsd: null };
  expect(limitsText(account)).toBe('-');
  expect(limitsText({ ...account, weight: 10 })).toBe('weight 10');
  expect(limitsText({ ...account, priority: 'low' })).toBe('low priority');
  expect(limitsText({ ...account, rpm: 60, tpm: 1000, monthlyBudgetNanoUsd: 5e9 })).toBe(
    '60 rpm, 1000 tpm, 5 USD/month',
  );
  expect(
    limitsText({
      ...account,
      concurrency: 2,
      monthlyBudgetNanoUsd: 0,
      allowedRegions: ['a', 'b'],
      allowedAddresses: ['10.0.0.0/8'],
    }),
  ).toBe('2 at a time, 0 USD/month, in a,b, from 10.0.0.0/8');
});
