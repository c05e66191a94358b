import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { DatabaseError, type Pool, type PoolClient } from 'pg';
import { expect, it } from 'vitest';
import { forReading } from './read-pool.ts';

/** A pool whose queries fail with this error. Notes how connections are given back. */
function failing(error: Error) {
  const closed: unknown[] = [];
  const client = { query: () => Promise.reject(error), release: (destroy: unknown) => closed.push(destroy) };
  const pool: Pick<Pool, 'connect' | 'end' | 'options'> = {
    connect: (async () => client as unknown as PoolClient) as Pool['connect'],
    end: async () => {},
    options: {} as Pool['options'],
  };
  return { pool: forReading(pool), closed };
}

it('closes a connection whose query got no answer', async () => {
  const { pool, closed } = failing(new Error('Query read timeout'));
  const client = await pool.connect();
  await expect(client.query('select 1', [])).rejects.toThrow(StoreUnavailableError);
  client.release();
  expect(closed).toEqual([true]);
});

it('keeps a connection whose query was refused by the server', async () => {
  const { pool, closed } = failing(new DatabaseError('no such column', 2, 'error'));
  const client = await pool.connect();
  await expect(client.query('select nothing', [])).rejects.toThrow('no such column');
  client.release();
  expect(closed).toEqual([false]);
});

it('calls the store unavailable when it cannot connect', async () => {
  const connect = (() => Promise.reject(new Error('connect ECONNREFUSED'))) as Pool['connect'];
  const pool = forReading({ connect, end: async () => {}, options: {} as Pool['options'] });
  await expect(pool.connect()).rejects.toThrow(StoreUnavailableError);
});
