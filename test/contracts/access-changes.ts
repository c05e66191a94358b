import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiError } from '../../packages/core/src/errors/api-error.ts';
import type {
  AccountRepository,
  KeyRepository,
  RevisionRepository,
} from '../../packages/core/src/ports/repositories.ts';
import { createAccounts } from '../../packages/server/src/services/access/accounts.ts';
import { createAuthentication } from '../../packages/server/src/services/access/authentication.ts';
import { hashSecret } from '../../packages/server/src/services/access/key-secret.ts';
import { createKeys } from '../../packages/server/src/services/access/keys.ts';
import { serverOrigin } from '../../packages/server/src/services/audit/origins.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { account, apiKey } from './key-fixtures.ts';

interface Access {
  accounts: AccountRepository;
  keys: KeyRepository;
  revisions: RevisionRepository;
}

export interface AccessChangesUnderTest {
  /** Two processes on one empty store. */
  stores: readonly [Access, Access];
  /** Plain SQL, in one transaction. */
  run(statements: string): Promise<void>;
  close(): Promise<void>;
}

const clock = { now: () => Date.UTC(2026, 5, 1) };
const secretOf = (id: string) => `secret-of-${id}-0000`;
const hashOf = (id: string) => hashSecret(secretOf(id));

/** A server that counts how often it reads keys. */
function serverOn({ accounts, keys, revisions }: Access) {
  const read: string[] = [];
  const authentication = createAuthentication({
    accounts,
    keys: {
      ...keys,
      findByHash(hash) {
        read.push(hash);
        return keys.findByHash(hash);
      },
    },
    revisions,
    health: { back: () => undefined },
    clock,
  });
  return {
    refresh: authentication.refresh,
    readsOf: (id: string) => read.filter((hash) => hash === hashOf(id)).length,
    async codeOf(id: string): Promise<string> {
      try {
        return (await authentication.authenticate(`Bearer ${secretOf(id)}`)).key.name;
      } catch (error) {
        return (error as ApiError).code;
      }
    },
  };
}

/** A server remembers keys, and learns from the store which of them another one has changed. */
export function accessChangesContract(name: string, open: () => Promise<AccessChangesUnderTest>): void {
  describe(`changes of keys: ${name}`, () => {
    let under: AccessChangesUnderTest;
    let other: Access;
    beforeAll(async () => {
      under = await open();
      other = under.stores[1];
      for (const id of ['acct_a', 'acct_b']) await other.accounts.create(account({ id, name: id }), someEntry());
    });
    afterAll(() => under.close());

    const newServer = async () => {
      const server = serverOn(under.stores[0]);
      await server.refresh();
      return server;
    };
    const create = async (id: string, accountId: string) => {
      await other.keys.create(apiKey({ id, accountId, name: id }), hashOf(id), someEntry());
      return id;
    };

    it('make one first key when several servers start on an empty store', async () => {
      const servers = Array.from({ length: 8 }, (_, index) => under.stores[index % 2] as Access).map((store) =>
        createKeys({ keys: store.keys, accounts: createAccounts({ accounts: store.accounts, clock }), clock }),
      );
      for (let round = 0; round < 10; round += 1) {
        // Servers have one secret when it is configured, and one each otherwise.
        const secret = round % 2 === 0 ? undefined : 'configured-0123456789';
        const made = await Promise.all(servers.map((server) => server.bootstrap(secret, serverOrigin())));
        const first = made.filter((key) => key !== undefined);
        expect(first).toHaveLength(1);
        expect(await other.keys.list({})).toEqual([first[0]?.key]);
        await under.run('delete from api_keys');
      }
    });

    it('let a rotation and a revocation of one key come one after the other', async () => {
      const [first, second] = under.stores.map((store) =>
        createKeys({ keys: store.keys, accounts: createAccounts({ accounts: store.accounts, clock }), clock }),
      );
      for (let round = 0; round < 20; round += 1) {
        const id = await create(`key_raced_${round}`, 'acct_b');
        const rotate = () => first?.rotateKey(id, { graceMs: 3_600_000 }, serverOrigin()).catch((error) => error.param);
        const revoke = () => second?.revokeKey(id, serverOrigin());
        const raced = round % 2 === 0 ? [rotate(), revoke()] : [revoke(), rotate()];
        await Promise.all(raced);
        const rotated = await raced[round % 2];
        const issued = (await other.keys.list({ accountId: 'acct_b' })).filter(
          (key) => key.originalId === id && key.id !== id,
        );
        // A refused rotation leaves no key behind, and one that came first is on record before the revocation.
        expect(issued).toHaveLength(rotated === 'id' ? 0 : 1);
        expect((await other.keys.get(id))?.revokedAt).toBe(clock.now());
      }
    });

    it('that come between the look-up of a key and its rotation hold for the new key', async () => {
      const rotate = async (id: string, changes: Parameters<KeyRepository['update']>[1]) => {
        const [{ keys, accounts }] = under.stores;
        const service = createKeys({
          keys: {
            ...keys,
            async replace(...given) {
              await other.keys.update(id, changes, someEntry);
              return keys.replace(...given);
            },
          },
          accounts: createAccounts({ accounts, clock }),
          clock,
        });
        return service.rotateKey(id, { graceMs: 0 }, serverOrigin());
      };
      const narrowed = await rotate(await create('key_narrowed', 'acct_b'), { scopes: ['embeddings'] });
      expect(narrowed?.key.scopes).toEqual(['embeddings']);
      const revoked = await create('key_revoked', 'acct_b');
      await expect(rotate(revoked, { revokedAt: 5 })).rejects.toMatchObject({ code: 'invalid_parameter', param: 'id' });
      const successors = (await other.keys.list({})).filter(({ originalId }) => originalId === revoked);
      expect(successors.map(({ id }) => id)).toEqual([revoked]);
    });

    it('make no other key be read again, however many there are', async () => {
      const [quiet, noisy] = [await create('key_quiet', 'acct_a'), await create('key_noisy', 'acct_b')];
      const server = await newServer();
      expect([await server.codeOf(quiet), await server.codeOf(noisy)]).toEqual([quiet, noisy]);
      for (let round = 0; round < 10; round += 1) {
        const short = await create(`key_short_${round}`, 'acct_b');
        await other.keys.update(noisy, { name: `renamed ${round}` }, someEntry);
        await server.refresh();
        expect(await server.codeOf(short)).toBe(short);
        await other.keys.update(short, { revokedAt: 5 }, someEntry);
        await other.accounts.update('acct_b', { rpm: round }, someEntry);
        await server.refresh();
        expect(await server.codeOf(short)).toBe('key_revoked');
        expect(await server.codeOf(noisy)).toBe(`renamed ${round}`);
        expect(await server.codeOf(quiet)).toBe(quiet);
      }
      expect(server.readsOf(quiet)).toBe(1);
    });

    it('let in a key that was unknown, and make no other unknown key be read again', async () => {
      const server = await newServer();
      for (const id of ['key_later', 'key_never']) expect(await server.codeOf(id)).toBe('invalid_api_key');
      await create('key_later', 'acct_a');
      await server.refresh();
      expect(await server.codeOf('key_later')).toBe('key_later');
      expect(await server.codeOf('key_never')).toBe('invalid_api_key');
      expect(server.readsOf('key_never')).toBe(1);
    });

    it('of an account concern its keys and no others', async () => {
      const [one, two] = [await create('key_one', 'acct_a'), await create('key_two', 'acct_b')];
      const server = await newServer();
      for (const id of [one, two]) expect(await server.codeOf(id)).toBe(id);
      await other.accounts.update('acct_a', { suspendedAt: 5 }, someEntry);
      await server.refresh();
      expect([await server.codeOf(one), await server.codeOf(two)]).toEqual(['account_suspended', two]);
      await other.accounts.update('acct_a', { suspendedAt: null }, someEntry);
      await server.refresh();
      expect([await server.codeOf(one), await server.codeOf(two)]).toEqual([one, two]);
      expect(server.readsOf(two)).toBe(1);
    });

    it('by a server of an earlier version, which does not say what it changed, are seen too', async () => {
      const [id, later] = [await create('key_earlier', 'acct_a'), 'key_of_earlier'];
      const server = await newServer();
      expect([await server.codeOf(id), await server.codeOf(later)]).toEqual([id, 'invalid_api_key']);
      const bump = "update revisions set value = value + 1 where topic = 'keys'";
      await under.run(`update api_keys set revoked_at_ms = 5 where id = '${id}'; ${bump}`);
      await create(later, 'acct_b');
      await server.refresh();
      expect([await server.codeOf(id), await server.codeOf(later)]).toEqual(['key_revoked', later]);
    });

    it('are never hidden by look-ups that run meanwhile', async () => {
      const ids = await Promise.all(['acct_a', 'acct_a', 'acct_b'].map((of, index) => create(`key_any_${index}`, of)));
      const anyAction = fc.record({
        what: fc.constantFrom('authenticate', 'authenticate', 'refresh', 'rename', 'suspend'),
        which: fc.nat(ids.length - 1),
        text: fc.constantFrom('one', 'two', 'three'),
      });
      await fc.assert(
        fc.asyncProperty(fc.array(anyAction, { minLength: 5, maxLength: 30 }), async (actions) => {
          const server = await newServer();
          const act = ({ what, which, text }: (typeof actions)[number]): Promise<unknown> => {
            const id = ids[which] as string;
            if (what === 'authenticate') return server.codeOf(id);
            if (what === 'refresh') return server.refresh();
            if (what === 'rename') return other.keys.update(id, { name: text }, someEntry);
            return other.accounts.update('acct_a', { suspendedAt: text === 'one' ? 5 : null }, someEntry);
          };
          await Promise.all(actions.map(act));
          await server.refresh();
          const fresh = await newServer();
          for (const id of ids) expect(await server.codeOf(id)).toBe(await fresh.codeOf(id));
        }),
        { numRuns: 30 },
      );
      await other.accounts.update('acct_a', { suspendedAt: null }, someEntry);
    });
  });
}
