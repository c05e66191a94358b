import { describe, expect, it } from 'vitest';
import { createAddressList, isAddressRange } from './addresses.ts';

describe('address ranges', () => {
  it.each(['10.0.0.0/8', '127.0.0.1', '0.0.0.0/0', '2001:db8::/32', '::1', '::/0', '192.168.1.1/32'])(
    'accept %s',
    (text) => expect(isAddressRange(text)).toBe(true),
  );

  it.each([
    '',
    '10.0.0',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0.0/08',
    '::1/129',
    'fe80::1%eth0',
    'localhost',
    ' ::1',
  ])('refuse %j', (text) => {
    expect(isAddressRange(text)).toBe(false);
    expect(() => createAddressList([text])).toThrow(RangeError);
  });
});

describe('an address list', () => {
  const list = createAddressList(['10.1.0.0/16', '192.168.1.7', '2001:db8::/32']);

  it.each(['10.1.2.3', '192.168.1.7', '2001:db8:1::5', '::ffff:10.1.2.3', '::ffff:c0a8:107'])(
    'includes %s',
    (address) => {
      expect(list.includes(address)).toBe(true);
    },
  );

  it.each(['10.2.0.1', '192.168.1.8', '2001:db9::1', '::ffff:10.2.0.1', '', 'unknown', '10.1.2.3, 10.2.0.1'])(
    'does not include %j',
    (address) => expect(list.includes(address)).toBe(false),
  );

  it('includes everything with a prefix of zero', () => {
    const all = createAddressList(['0.0.0.0/0', '::/0']);
    expect([all.includes('8.8.8.8'), all.includes('2001::1')]).toEqual([true, true]);
  });
});
