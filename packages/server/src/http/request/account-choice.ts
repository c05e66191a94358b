import { isOperator } from '@baobab/core/domain/operations.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { AccountsService } from '../../services/access/accounts.ts';
import { shortText } from '../body/bounded.ts';
import { principalOf } from './request-record.ts';

/** All accounts. */
const ALL = '*';

/** The parameter `account` of reports. */
export const AccountChoice = Type.Optional(
  shortText({
    minLength: 1,
    description: 'Id or name of another account, `*` for all; only for keys with the scope `admin`',
  }),
);

/** The only account that the caller sees. Undefined for operators, who see all. */
export function visibleAccount(request: FastifyRequest): string | undefined {
  const { account, key } = principalOf(request);
  return isOperator(key) ? undefined : account.id;
}

/**
 * The account that a report is about: the caller's own, or for operators the one they name. Undefined: all accounts.
 * Everyone else learns nothing about other accounts, not even whether they exist.
 */
export async function chosenAccount(
  request: FastifyRequest,
  accounts: Pick<AccountsService, 'find'>,
  name: string | undefined,
): Promise<string | undefined> {
  const { account } = principalOf(request);
  if (name === undefined || name === account.id || name === account.name) return account.id;
  if (visibleAccount(request) !== undefined) throw errors.insufficientScope('admin');
  if (name === ALL) return undefined;
  const found = await accounts.find(name);
  if (found === undefined) throw errors.invalidParameter('account', `There is no account '${name}'.`);
  return found.id;
}
