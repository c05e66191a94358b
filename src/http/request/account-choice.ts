import type { FastifyRequest } from 'fastify';
import { errors } from '../../errors/errors.ts';
import type { AccountsService } from '../../services/access/accounts.ts';
import { principalOf } from './request-record.ts';

/** All accounts. */
const ALL = '*';

/**
 * The account that a report is about: the caller's own, or for keys with the scope `admin` the one they name. Undefined: all accounts.
 * A key without that scope learns nothing about other accounts, not even whether they exist.
 */
export async function chosenAccount(
  request: FastifyRequest,
  accounts: Pick<AccountsService, 'find'>,
  name: string | undefined,
): Promise<string | undefined> {
  const { account, key } = principalOf(request);
  if (name === undefined || name === account.id || name === account.name) return account.id;
  if (!key.scopes.includes('admin')) throw errors.insufficientScope('admin');
  if (name === ALL) return undefined;
  const found = await accounts.find(name);
  if (found === undefined) throw errors.invalidParameter('account', `There is no account '${name}'.`);
  return found.id;
}
