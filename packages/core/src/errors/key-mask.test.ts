import { expect, it } from 'vitest';
import { errors } from './errors.ts';
import { maskKeys } from './key-mask.ts';

it.each([
  ['/v1/bao_sk_0123_abc/x', '/v1/bao_sk_[hidden]/x'],
  ['/v1/bao%5Fsk%5F0123abc?x', '/v1/bao_sk_[hidden]?x'],
  ['/v1/bao%255fsk_0123%5Fabc', '/v1/bao_sk_[hidden]'],
  ['BAO_SK_0123', 'bao_sk_[hidden]'],
  ['the baobab', 'the baobab'],
])('masks keys in %s', (text, masked) => {
  expect(maskKeys(text)).toBe(masked);
});

it('masks keys that an error would repeat', () => {
  expect(JSON.stringify(errors.unknownEndpoint('GET', '/v1/bao_sk_0123abc').toBody())).not.toContain('0123abc');
  expect(JSON.stringify(errors.modelNotFound('bao_sk_0123abc').toBody())).not.toContain('0123abc');
});
