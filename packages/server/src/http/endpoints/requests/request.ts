import { parseTime } from '@baobab/core/domain/usage-window.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { RequestFilter, RequestPosition } from '@baobab/core/ports/request-log.ts';
import type { Static } from 'typebox';
import type { RequestsQuery } from './schema.ts';

type Query = Static<typeof RequestsQuery>;

/** Opaque to clients: time and id of the last entry of a page. */
export const cursorOf = ({ time, id }: RequestPosition): string => Buffer.from(`${time}:${id}`).toString('base64url');

export function positionOf(cursor: string | undefined): RequestPosition | undefined {
  if (cursor === undefined) return undefined;
  const [, time, id] = /^(\d{1,15}):(\w+)$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (time === undefined || id === undefined) {
    throw errors.invalidParameter('after', "'after' must be the next_cursor of an earlier page.");
  }
  return { time: Number(time), id };
}

function statusesOf(text: string | undefined): readonly [number, number] | undefined {
  if (text === undefined) return undefined;
  if (text === 'error') return [400, 599];
  const [, kind, rest] = /^([1-5])(\d\d|xx)$/.exec(text) ?? [];
  if (kind === undefined || rest === undefined) {
    throw errors.invalidParameter('status', "'status' must be a status such as 429, a class such as 5xx, or error.");
  }
  return rest === 'xx' ? [Number(`${kind}00`), Number(`${kind}99`)] : [Number(text), Number(text)];
}

export const filterOf = (query: Query, accountId: string | undefined): RequestFilter => ({
  accountId,
  start: query.start === undefined ? undefined : parseTime(query.start, ['start']),
  end: query.end === undefined ? undefined : parseTime(query.end, ['end']),
  model: query.model,
  keyId: query.key,
  region: query.region,
  endpoint: query.endpoint,
  status: statusesOf(query.status),
  id: query.request_id,
});
