import type { Session, SessionRepository } from '@baobab/core/ports/sessions.ts';
import type { SqlDatabase } from './database.ts';
import type { SessionsTable } from './tables.ts';

const toRow = ({ hash, keyId, createdAt, expiresAt }: Session): SessionsTable => ({
  hash,
  key_id: keyId,
  created_at_ms: createdAt,
  expires_at_ms: expiresAt,
});

const toSession = (row: SessionsTable): Session => ({
  hash: row.hash,
  keyId: row.key_id,
  createdAt: row.created_at_ms,
  expiresAt: row.expires_at_ms,
});

export function sqlSessions({ read, write, writeIf }: SqlDatabase): SessionRepository {
  return {
    async create(session, { maxPerKey }) {
      const newest = read
        .selectFrom('sessions')
        .select('hash')
        .where('key_id', '=', session.keyId)
        .orderBy('created_at_ms', 'desc')
        .orderBy('hash')
        .limit(maxPerKey);
      await write([
        read.insertInto('sessions').values(toRow(session)),
        read.deleteFrom('sessions').where('key_id', '=', session.keyId).where('hash', 'not in', newest),
      ]);
    },
    async find(hash) {
      const row = await read.selectFrom('sessions').selectAll().where('hash', '=', hash).executeTakeFirst();
      return row && toSession(row);
    },
    async renew(hash, expiresAt) {
      await write([read.updateTable('sessions').set({ expires_at_ms: expiresAt }).where('hash', '=', hash)]);
    },
    async remove(hash) {
      await writeIf([read.deleteFrom('sessions').where('hash', '=', hash)], { urgent: true });
    },
    async removeExpired(now) {
      await write([read.deleteFrom('sessions').where('expires_at_ms', '<=', now)]);
    },
  };
}
