import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { describe, expect, it } from 'vitest';
import { parseRedisAddress, placeOf } from './address.ts';

describe('the address of Redis', () => {
  it('has defaults for what it leaves out', () => {
    expect(parseRedisAddress('redis://redis')).toMatchObject({ hosts: [{ host: 'redis', port: 6379 }], database: 0 });
    expect(parseRedisAddress('rediss://redis')).toMatchObject({ tls: {} });
  });

  it('takes user, password, port and database', () => {
    expect(parseRedisAddress('redis://user:p%40ss%2Fword@[::1]:6380/2')).toMatchObject({
      hosts: [{ host: '::1', port: 6380 }],
      username: 'user',
      password: 'p@ss/word',
      database: 2,
    });
    expect(parseRedisAddress('redis://:100%@redis')?.password).toBe('100%');
  });

  it('takes sentinels and the name of the primary', () => {
    const address = parseRedisAddress('redis+sentinel://:secret@a,b:7/main/3?sentinel_password=other');
    expect(address).toMatchObject({
      hosts: [
        { host: 'a', port: 26_379 },
        { host: 'b', port: 7 },
      ],
      primary: 'main',
      database: 3,
      password: 'secret',
      sentinelPassword: 'other',
    });
    expect(address && placeOf(address)).toBe('a:26379,b:7 (primary main)');
  });

  it.each([
    'http://redis',
    'redis://',
    'redis://a,b',
    'redis://a/x',
    'redis://a/1/2',
    'redis+sentinel://a',
    'redis://a b',
  ])('is not %s', (text) => {
    expect(parseRedisAddress(text)).toBeUndefined();
  });

  it('names a certificate authority that can be read', () => {
    expect(() => parseRedisAddress('rediss://redis?ca=/absent/ca.crt')).toThrow(StoreUnavailableError);
    expect(() => parseRedisAddress('rediss://redis?ca=/absent/ca.crt')).toThrow(
      /ca\.crt of counters cannot be read: there is no such file/,
    );
  });
});
