import { type RawBuilder, sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ReportTooLongError } from '../../packages/core/src/ports/store-errors.ts';
import type { SqlDatabase } from '../../packages/server/src/adapters/sql/shared/database.ts';

export interface ReportsUnderTest {
  /** With this time limit for a report. */
  open(limitMs: number): Promise<SqlDatabase>;
  /** Works for minutes. */
  slow: RawBuilder<unknown>;
  /** Statements that the database still works on. */
  running(): Promise<number>;
}

const LONG_MS = 120_000;

/** How reports share a database, and what ends them. */
export function reportsContract(name: string, { open, slow, running }: ReportsUnderTest): void {
  describe(`reports on ${name}`, () => {
    let database: SqlDatabase;
    let isOpen = false;
    const openWith = async (limitMs: number) => {
      database = await open(limitMs);
      isOpen = true;
    };
    const close = async () => {
      if (isOpen) await database.close();
      isOpen = false;
    };
    const begin = (accountId: string, signal?: AbortSignal) => slow.execute(database.report({ accountId, signal }));
    const quick = (accountId: string) => sql`select 1 as one`.execute(database.report({ accountId }));

    describe('with a short limit', () => {
      beforeEach(() => openWith(1_500));
      afterEach(close);

      it('end at their limit, which their statements share', async () => {
        const report = database.report({ accountId: 'a' });
        await sql`select 1`.execute(report);
        await expect(slow.execute(report)).rejects.toThrow(ReportTooLongError);
        await expect.poll(running, { timeout: 10_000 }).toBe(0);
        expect((await quick('a')).rows).toEqual([{ one: 1 }]);
      });
    });

    describe('with a long limit', () => {
      beforeEach(() => openWith(LONG_MS));
      afterEach(close);

      it('end when their client leaves', async () => {
        const client = new AbortController();
        const report = begin('a', client.signal);
        await expect.poll(running, { timeout: 10_000 }).toBe(1);
        client.abort();
        await expect(report).rejects.toMatchObject({ code: 'client_cancelled' });
        await expect.poll(running, { timeout: 10_000 }).toBe(0);
      });

      it('of one account do not hold up those of another, however many they are', async () => {
        const slowOnes = Array.from({ length: 8 }, () => begin('greedy').catch((error: unknown) => error));
        const others = Array.from({ length: 3 }, (_, index) =>
          begin(`other ${index}`).catch((error: unknown) => error),
        );
        await expect.poll(running, { timeout: 10_000 }).toBeGreaterThan(0);
        for (let round = 0; round < 3; round += 1) expect((await quick('b')).rows).toEqual([{ one: 1 }]);
        await close();
        for (const outcome of await Promise.all([...slowOnes, ...others])) {
          expect(outcome).toMatchObject({ message: 'The database is closed.' });
        }
      });

      it('do not delay a stop', async () => {
        const report = begin('a').catch((error: unknown) => error);
        await expect.poll(running, { timeout: 10_000 }).toBe(1);
        await close();
        expect(await report).toMatchObject({ message: 'The database is closed.' });
        await expect.poll(running, { timeout: 10_000 }).toBe(0);
      });

      it('of the server itself have no limit, and end with it', async () => {
        const work = slow.execute(database.report()).catch((error: unknown) => error);
        await expect.poll(running, { timeout: 10_000 }).toBe(1);
        await close();
        expect(await work).toMatchObject({ message: 'The database is closed.' });
      });
    });
  });
}
