import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { StoredResponse } from '../../packages/core/src/domain/response.ts';
import type { ConversationItemQuery, ConversationRepository } from '../../packages/core/src/ports/conversations.ts';
import type { AccountRepository } from '../../packages/core/src/ports/repositories.ts';
import type { ResponseClaim, ResponseRepository } from '../../packages/core/src/ports/responses.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { account } from './key-fixtures.ts';

export interface ResponsesUnderTest {
  accounts: AccountRepository;
  responses: ResponseRepository;
  conversations: ConversationRepository;
  close(): Promise<void>;
}

const NO_LIMIT = { items: 0, bytes: 0 };
const WHOLE_CHAIN = { responses: 10, bytes: 10_000 };
const ALL_ITEMS: ConversationItemQuery = { order: 'asc', limit: 10, maxBytes: 10_000 };
export const storedResponse = (id: string, changes: Partial<StoredResponse> = {}): StoredResponse => ({
  id: `resp_${id}`,
  accountId: 'acct_1',
  keyId: 'key_1',
  previousId: null,
  conversationId: null,
  status: 'completed',
  background: false,
  createdAt: 1,
  expiresAt: 1_000,
  input: '[]',
  content: '{"text":"ü"}',
  ...changes,
});
const BYTES = Buffer.byteLength('[]{"text":"ü"}');
const claimOf = (changes: Partial<ResponseClaim> = {}): ResponseClaim => ({
  ownerId: 'process-1',
  now: 0,
  leaseUntil: 100,
  limit: 10,
  maxPerAccount: 10,
  holding: [],
  ...changes,
});

/** Every store of responses and conversations behaves like this. */
export function responsesContract(name: string, open: () => Promise<ResponsesUnderTest>): void {
  describe(`responses: ${name}`, () => {
    let store: ResponsesUnderTest;
    let responses: ResponseRepository;
    let conversations: ConversationRepository;
    let accounts = 0;
    beforeAll(async () => {
      store = await open();
      ({ responses, conversations } = store);
    });
    afterAll(() => store.close());
    /** Each test has an account of its own. */
    const newAccount = async (): Promise<string> => {
      accounts += 1;
      const id = `acct_r${accounts}`;
      await store.accounts.create(account({ id, name: id }), someEntry());
      return id;
    };

    it('keeps responses of accounts apart', async () => {
      const [one, other] = [await newAccount(), await newAccount()];
      const kept = storedResponse('a', { accountId: one });
      expect(await responses.create(kept, { quota: NO_LIMIT })).toBe(true);
      expect(await responses.get(one, kept.id)).toEqual(kept);
      expect(await responses.get(other, kept.id)).toBeUndefined();
      expect(await responses.chain(other, kept.id, WHOLE_CHAIN)).toEqual([]);
      expect(await responses.delete(other, kept.id)).toBe(false);
      expect(await responses.cancel(other, kept.id, '{}')).toBe(false);
      expect(await responses.delete(one, kept.id)).toBe(true);
      expect(await responses.delete(one, kept.id)).toBe(false);
      expect(await responses.stored(one)).toEqual({ items: 0, bytes: 0 });
    });

    it('reads all of several responses, or says which is missing, or that they are too large', async () => {
      const [accountId, other] = [await newAccount(), await newAccount()];
      const stored = ['m1', 'm2', 'm3'].map((id) => storedResponse(id, { accountId, content: `"${id}"` }));
      for (const each of stored) await responses.create(each, { quota: NO_LIMIT });
      const ids = stored.map(({ id }) => id);
      const limits = { now: 500, maxBytes: 1_000 };
      const read = await responses.getAll(accountId, ids, limits);
      expect(Array.isArray(read) && read.map(({ content }) => content).sort()).toEqual(['"m1"', '"m2"', '"m3"']);
      expect(await responses.getAll(accountId, ids.slice(0, 2), limits)).toHaveLength(2);
      expect(await responses.getAll(accountId, [ids[0] ?? '', 'resp_none', 'resp_nor'], limits)).toEqual({
        missing: 'resp_none',
      });
      expect(await responses.getAll(accountId, ids, { ...limits, maxBytes: 15 })).toBe('too large');
      expect(await responses.getAll(accountId, ids, { ...limits, now: 1_000 })).toEqual({ missing: ids[0] });
      expect(await responses.getAll(other, ids, limits)).toEqual({ missing: ids[0] });
      const many = Array.from({ length: 20_000 }, (_, index) => `resp_\0\ud800${index}`);
      expect(await responses.getAll(accountId, many, limits)).toEqual({ missing: many[0] });
    });

    it('adds any number of items with any texts to a conversation, in their order', async () => {
      const accountId = await newAccount();
      const of = { id: 'conv_many', accountId, metadata: {}, createdAt: 1, expiresAt: 1_000 };
      expect(await conversations.create(of, [], NO_LIMIT)).toBe(true);
      const odd = [
        { id: 'quote"\\\n', content: '"\\u0000 \\ud800 \u2028 é 😀"' },
        { id: 'twice', content: '"first"' },
        { id: 'twice', content: '"second"' },
        { id: 'nul\0', content: '"a\0"' },
        { id: 'half\ud800', content: '"b\ud800"' },
      ];
      const many = Array.from({ length: 20_000 }, (_, index) => ({ id: `i${index}`, content: `{"n":${index}}` }));
      const added = { conversationId: of.id, items: [...odd, ...many], now: 1, expiresAt: 1_000 };
      expect(await conversations.append(accountId, added, NO_LIMIT)).toBe(true);
      const { items } = await conversations.items(of.id, { order: 'asc', limit: 50_000, maxBytes: 10_000_000 });
      expect(items.slice(0, 2)).toEqual(odd.slice(0, 2));
      expect(items.slice(2, 4).map(({ content }) => content)).toEqual(['"a\ufffd"', '"b\ufffd"']);
      expect(items.slice(4)).toEqual(many);
    });

    it('counts what an account stores and refuses more than its quota', async () => {
      const accountId = await newAccount();
      const quota = { items: 2, bytes: 0 };
      expect(await responses.create(storedResponse('q1', { accountId }), { quota })).toBe(true);
      expect(await responses.create(storedResponse('q2', { accountId }), { quota })).toBe(true);
      expect(await responses.create(storedResponse('q3', { accountId }), { quota })).toBe(false);
      expect(await responses.get(accountId, 'resp_q3')).toBeUndefined();
      expect(await responses.create(storedResponse('q4', { accountId }), { quota: { items: 0, bytes: BYTES } })).toBe(
        false,
      );
      expect(await responses.stored(accountId)).toEqual({ items: 2, bytes: 2 * BYTES });
    });

    it('reads a chain oldest first and keeps it as long as its newest', async () => {
      const accountId = await newAccount();
      await responses.create(storedResponse('c1', { accountId, expiresAt: 10 }), { quota: NO_LIMIT });
      await responses.create(storedResponse('c2', { accountId, expiresAt: 20, previousId: 'resp_c1' }), {
        quota: NO_LIMIT,
        ancestors: ['resp_c1'],
      });
      await responses.create(storedResponse('c3', { accountId, expiresAt: 30, previousId: 'resp_c2' }), {
        quota: NO_LIMIT,
        ancestors: ['resp_c1', 'resp_c2'],
      });
      const chain = await responses.chain(accountId, 'resp_c3', WHOLE_CHAIN);
      expect(chain.map(({ id, expiresAt }) => [id, expiresAt])).toEqual([
        ['resp_c1', 30],
        ['resp_c2', 30],
        ['resp_c3', 30],
      ]);
      const cut = async (limits: object) =>
        (await responses.chain(accountId, 'resp_c3', { ...WHOLE_CHAIN, ...limits })).map(({ id }) => id);
      expect(await cut({ responses: 2 })).toEqual(['resp_c2', 'resp_c3']);
      expect(await cut({ bytes: 3 * BYTES - 1 })).toEqual(['resp_c2', 'resp_c3']);
      expect(await cut({ bytes: 3 * BYTES })).toHaveLength(3);
      expect(await responses.deleteExpired(30, 2)).toBe(2);
      expect(await responses.deleteExpired(30, 2)).toBe(1);
      expect(await responses.stored(accountId)).toEqual({ items: 0, bytes: 0 });
    });

    it('gives a background response to one owner, and to another when its lease is over', async () => {
      const accountId = await newAccount();
      const queued = storedResponse('b1', { accountId, status: 'queued', background: true });
      await responses.create(queued, { quota: NO_LIMIT, request: '{"r":1}' });
      expect(await responses.countActive(accountId)).toBe(1);
      const [claimed] = await responses.claim(claimOf());
      expect(claimed).toEqual({ ...queued, status: 'in_progress', request: '{"r":1}', attempts: 1 });
      expect(await responses.claim(claimOf({ ownerId: 'process-2', now: 50 }))).toEqual([]);
      expect(await responses.renew('process-1', [queued.id], 200)).toEqual(new Set([queued.id]));
      expect(await responses.claim(claimOf({ ownerId: 'process-2', now: 150 }))).toEqual([]);
      const [taken] = await responses.claim(claimOf({ ownerId: 'process-2', now: 200, leaseUntil: 300 }));
      expect(taken).toMatchObject({ id: queued.id, attempts: 2 });
      expect(await responses.renew('process-1', [queued.id], 400)).toEqual(new Set());
      // The first owner can no longer end it.
      const end = { status: 'completed' as const, content: '{"late":true}' };
      expect(await responses.end({ id: queued.id, ownerId: 'process-1' }, end)).toBe(false);
      const content = '{"text":"done"}';
      expect(await responses.end({ id: queued.id, ownerId: 'process-2' }, { status: 'completed', content })).toBe(true);
      expect(await responses.get(accountId, queued.id)).toEqual({ ...queued, status: 'completed', content });
      expect(await responses.active([queued.id])).toEqual(new Set());
      expect(await responses.stored(accountId)).toEqual({ items: 1, bytes: 2 + content.length });
      expect(await responses.claim(claimOf({ now: 1_000 }))).toEqual([]);
    });

    it('records the events of a response for its owner only, and removes them with it', async () => {
      const accountId = await newAccount();
      const queued = storedResponse('e1', { accountId, status: 'queued', background: true });
      const begin = { first: 0, last: 1, content: '[0,1]' };
      await responses.create(queued, { quota: NO_LIMIT, request: '{}', events: begin });
      await responses.claim(claimOf({ leaseUntil: 10_000 }));
      const own = { id: queued.id, ownerId: 'process-1' };
      const next = { first: 2, last: 5, content: '["ü"]' };
      expect(await responses.lastEvents([queued.id])).toEqual(new Map([[queued.id, 1]]));
      expect(await responses.record({ ...own, ownerId: 'process-2' }, next)).toBe(false);
      expect(await responses.record(own, next)).toBe(true);
      const silent = storedResponse('e2', { accountId, status: 'queued', background: true });
      await responses.create(silent, { quota: NO_LIMIT, request: '{}' });
      expect(await responses.lastEvents([queued.id, silent.id, 'resp_none'])).toEqual(new Map([[queued.id, 5]]));
      await responses.delete(accountId, silent.id);
      expect(await responses.events(queued.id, -1)).toEqual([begin, next]);
      expect(await responses.events(queued.id, 1)).toEqual([next]);
      expect(await responses.events(queued.id, 4)).toEqual([next]);
      expect(await responses.events(queued.id, 5)).toEqual([]);
      expect(await responses.end(own, { status: 'completed', content: '{}' })).toBe(true);
      expect(await responses.record(own, { first: 6, last: 6, content: '[]' })).toBe(false);
      expect(await responses.stored(accountId)).toEqual({ items: 1, bytes: 4 + 5 + 6 });
      expect(await responses.delete(accountId, queued.id)).toBe(true);
      expect(await responses.events(queued.id, -1)).toEqual([]);
      expect(await responses.lastEvents([queued.id])).toEqual(new Map());
      expect(await responses.stored(accountId)).toEqual({ items: 0, bytes: 0 });
    });

    it('gives a response back, and all of those whose owners have ended', async () => {
      const accountId = await newAccount();
      await responses.create(storedResponse('g1', { accountId, status: 'queued', background: true }), {
        quota: NO_LIMIT,
        request: '{}',
      });
      await responses.claim(claimOf());
      await responses.release({ id: 'resp_g1', ownerId: 'process-1' }, { claimableAt: 40, counts: false });
      expect(await responses.claim(claimOf({ now: 39 }))).toEqual([]);
      expect(await responses.claim(claimOf({ now: 40, leaseUntil: 900 }))).toMatchObject([{ attempts: 1 }]);
      expect(await responses.claim(claimOf({ now: 900, holding: ['resp_g1'] }))).toEqual([]);
      await responses.releaseOthers('process-1');
      expect(await responses.claim(claimOf({ now: 50, ownerId: 'process-2' }))).toEqual([]);
      await responses.releaseOthers('process-2');
      expect(await responses.claim(claimOf({ now: 50, ownerId: 'process-2' }))).toMatchObject([{ id: 'resp_g1' }]);
    });

    it('lets accounts take turns, and leaves slots to others', async () => {
      const [many, few] = [await newAccount(), await newAccount()];
      const add = (id: string, accountId: string) =>
        responses.create(storedResponse(id, { accountId, status: 'queued', background: true }), {
          quota: NO_LIMIT,
          request: '{}',
        });
      for (const id of ['t1', 't2', 't3', 't4', 't5']) await add(id, many);
      for (const id of ['u1', 'u2']) await add(id, few);
      const claimed = async (changes: Partial<ResponseClaim>) =>
        (await responses.claim(claimOf(changes))).map(({ id }) => id).sort();
      expect(await claimed({ limit: 3 })).toEqual(['resp_t1', 'resp_t2', 'resp_u1']);
      const holding = ['resp_t1', 'resp_t2', 'resp_u1'];
      expect(await claimed({ limit: 1, holding })).toEqual(['resp_u2']);
      expect(await claimed({ maxPerAccount: 3, holding: [...holding, 'resp_u2'] })).toEqual(['resp_t3']);
      expect(await claimed({ maxPerAccount: 3, ownerId: 'process-2' })).toEqual(['resp_t4', 'resp_t5']);
      for (const accountId of [many, few]) await responses.deleteOfAccount(accountId, 10);
    });

    it('cancels a response once, and its owner cannot end it any more', async () => {
      const accountId = await newAccount();
      await responses.create(storedResponse('x1', { accountId, status: 'queued', background: true }), {
        quota: NO_LIMIT,
        request: '{}',
      });
      await responses.claim(claimOf({ leaseUntil: 10_000 }));
      expect(await responses.cancel(accountId, 'resp_x1', '{"c":1}')).toBe(true);
      expect(await responses.cancel(accountId, 'resp_x1', '{"c":2}')).toBe(false);
      const end = { status: 'completed' as const, content: '{}' };
      expect(await responses.end({ id: 'resp_x1', ownerId: 'process-1' }, end)).toBe(false);
      expect(await responses.get(accountId, 'resp_x1')).toMatchObject({ status: 'cancelled', content: '{"c":1}' });
      expect(await responses.renew('process-1', ['resp_x1'], 99)).toEqual(new Set());
    });

    it('adds the items of a response to its conversation in one step', async () => {
      const accountId = await newAccount();
      const conversation = { id: 'conv_1', accountId, metadata: { a: 'ü' }, createdAt: 5, expiresAt: 50 };
      const first = { id: 'msg_1', content: '"one"' };
      expect(await conversations.create(conversation, [first], NO_LIMIT)).toBe(true);
      const items = {
        conversationId: 'conv_1',
        items: [{ id: 'msg_2', content: '"two"' }, first],
        now: 7,
        expiresAt: 70,
      };
      await responses.create(storedResponse('i1', { accountId, conversationId: 'conv_1' }), { quota: NO_LIMIT, items });
      const second = items.items[0];
      const list = (query: Partial<ConversationItemQuery>) => conversations.items('conv_1', { ...ALL_ITEMS, ...query });
      expect(await list({})).toEqual({ items: [first, second], hasMore: false });
      expect(await list({ order: 'desc', after: 'msg_2' })).toEqual({ items: [first], hasMore: false });
      expect(await list({ limit: 1 })).toEqual({ items: [first], hasMore: true });
      expect(await list({ maxBytes: 9 })).toEqual({ items: [first], hasMore: true });
      expect(await list({ maxBytes: 10 })).toEqual({ items: [first, second], hasMore: false });
      expect(await list({ maxBytes: 9, wholeOnly: true })).toEqual({ items: [], hasMore: true });
      expect(await list({ maxBytes: 1 })).toEqual({ items: [first], hasMore: true });
      expect(await conversations.get(accountId, 'conv_1')).toEqual({ ...conversation, expiresAt: 70 });
      // A conversation that is gone takes nothing with it.
      const gone = { ...items, conversationId: 'conv_gone' };
      const before = await responses.stored(accountId);
      expect(await responses.create(storedResponse('i2', { accountId }), { quota: NO_LIMIT, items: gone })).toBe(true);
      expect(await responses.stored(accountId)).toEqual({ items: before.items + 1, bytes: before.bytes + BYTES });
      expect(await conversations.append(accountId, gone, NO_LIMIT)).toBe(false);
      const running = storedResponse('i3', { accountId, status: 'queued', background: true });
      await responses.create(running, { quota: NO_LIMIT, request: '{}' });
      await responses.claim(claimOf());
      const end = { status: 'completed' as const, content: running.content, items: gone };
      expect(await responses.end({ id: running.id, ownerId: 'process-1' }, end)).toBe(true);
      expect(await responses.stored(accountId)).toEqual({ items: before.items + 2, bytes: before.bytes + 2 * BYTES });
    });

    it('counts background responses exactly, however many are created at once', async () => {
      const accountId = await newAccount();
      const creation = { quota: NO_LIMIT, request: '{}', maxActive: 3 };
      const made = await Promise.all(
        Array.from({ length: 8 }, (_, index) =>
          responses.create(storedResponse(`n${index}`, { accountId, status: 'queued', background: true }), creation),
        ),
      );
      expect(made.filter(Boolean)).toHaveLength(3);
      expect(await responses.countActive(accountId)).toBe(3);
      expect(await responses.stored(accountId)).toMatchObject({ items: 3 });
      expect(await responses.create(storedResponse('n8', { accountId }), { quota: NO_LIMIT, maxActive: 3 })).toBe(true);
      await responses.deleteOfAccount(accountId, 10);
    });

    it('keeps conversations of accounts apart and counts them', async () => {
      const [one, other] = [await newAccount(), await newAccount()];
      const conversation = { id: 'conv_2', accountId: one, metadata: {}, createdAt: 5, expiresAt: 50 };
      await conversations.create(conversation, [{ id: 'msg_1', content: '12345' }], NO_LIMIT);
      expect(await responses.stored(one)).toEqual({ items: 1, bytes: 5 });
      expect(await conversations.get(other, 'conv_2')).toBeUndefined();
      expect(await conversations.update(other, 'conv_2', { x: 'y' })).toBe(false);
      expect(await conversations.deleteItem(other, 'conv_2', 'msg_1')).toBe(false);
      expect(await conversations.delete(other, 'conv_2')).toBe(false);
      const more = { conversationId: 'conv_2', items: [{ id: 'msg_2', content: '123' }], now: 6, expiresAt: 50 };
      expect(await conversations.append(other, more, NO_LIMIT)).toBe(false);
      expect(await conversations.append(one, more, { items: 0, bytes: 7 })).toBe(false);
      expect(await conversations.append(one, more, NO_LIMIT)).toBe(true);
      expect(await conversations.update(one, 'conv_2', { x: 'y' })).toBe(true);
      expect((await conversations.get(one, 'conv_2'))?.metadata).toEqual({ x: 'y' });
      expect(await conversations.item('conv_2', 'msg_2')).toEqual({ id: 'msg_2', content: '123' });
      expect(await conversations.deleteItem(one, 'conv_2', 'msg_1')).toBe(true);
      expect(await responses.stored(one)).toEqual({ items: 1, bytes: 3 });
      expect(await conversations.delete(one, 'conv_2')).toBe(true);
      expect(await responses.stored(one)).toEqual({ items: 0, bytes: 0 });
      expect(await conversations.items('conv_2', ALL_ITEMS)).toEqual({ items: [], hasMore: false });
    });

    it('removes everything of an account', async () => {
      const accountId = await newAccount();
      await responses.create(storedResponse('d1', { accountId }), { quota: NO_LIMIT });
      await conversations.create({ id: 'conv_3', accountId, metadata: {}, createdAt: 5, expiresAt: 50 }, [], NO_LIMIT);
      expect(await responses.deleteOfAccount(accountId, 10)).toBe(2);
      expect(await responses.deleteOfAccount(accountId, 10)).toBe(0);
    });
  });
}
