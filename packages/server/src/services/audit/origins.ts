import { hostname, userInfo } from 'node:os';
import type { ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';

/** A user without an entry in the user database has a number only. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.getuid?.() ?? 'unknown'}`;
  }
}

const local = (via: 'cli' | 'server', id: string, name: string | null): ChangeOrigin => ({
  via,
  actor: { id, name, accountId: null, accountName: null, host: hostname() },
  requestId: null,
  address: null,
});

/** Who runs a command. */
export const operatorOrigin = (): ChangeOrigin => local('cli', 'operator', userName());

/** What a server does by itself. */
export const serverOrigin = (): ChangeOrigin => local('server', 'server', null);
