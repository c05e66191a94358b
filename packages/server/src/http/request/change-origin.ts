import type { ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../services/access/account-keys.ts';
import { principalOf } from './request-record.ts';

/** Who asks for a change with this request, for the audit log. */
export function originOf(request: FastifyRequest): ChangeOrigin {
  const { account, key } = principalOf(request);
  return {
    via: request.record.session === undefined ? 'api' : 'console',
    actor: { id: key.id, name: key.name, accountId: account.id, accountName: account.name, host: null },
    requestId: request.id,
    address: request.ip,
  };
}

export const auditedCaller = (request: FastifyRequest): Caller => ({ ...principalOf(request), by: originOf(request) });
