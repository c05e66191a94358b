import { Readable } from 'node:stream';
import type { Batch } from '@baobab/core/domain/batch.ts';
import type { Static } from 'typebox';
import type { ShownBatch } from '../../../services/message-batches/message-batches.ts';
import type { RequestEnd } from '../../../services/message-batches/results.ts';
import type { MessageBatchObject } from './schema.ts';

type WireBatch = Static<typeof MessageBatchObject>;

const CHUNK_CHARACTERS = 65_536;

const timeOf = (ms: number): string => new Date(ms).toISOString();
const optionalTime = (ms: number | null): string | null => (ms === null ? null : timeOf(ms));

function countsOf({ status, endedAt, counts, expiredLines }: Batch): WireBatch['request_counts'] {
  const { total, completed, failed } = counts;
  if (endedAt === null) return { processing: total, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
  const notRun = Math.max(0, total - completed - failed);
  return {
    processing: 0,
    succeeded: completed,
    errored: failed - expiredLines + (status === 'failed' ? notRun : 0),
    canceled: status === 'cancelled' ? notRun : 0,
    expired: expiredLines + (status === 'expired' ? notRun : 0),
  };
}

export function messageBatchToWire({ batch, archivedAt }: ShownBatch): WireBatch {
  const { id, status, endedAt } = batch;
  const unfinished = status === 'cancelling' ? 'canceling' : 'in_progress';
  return {
    id,
    type: 'message_batch',
    processing_status: endedAt === null ? unfinished : 'ended',
    request_counts: countsOf(batch),
    created_at: timeOf(batch.createdAt),
    expires_at: timeOf(batch.expiresAt),
    ended_at: optionalTime(endedAt),
    cancel_initiated_at: optionalTime(batch.cancellingAt),
    archived_at: optionalTime(archivedAt),
    // A path: the official clients add it to their base address, which a server behind a proxy does not know.
    results_url: endedAt === null || archivedAt !== null ? null : `/v1/messages/batches/${id}/results`,
  };
}

const refusal = (message: string) => ({
  type: 'error',
  error: { type: 'invalid_request_error', message },
  request_id: null,
});

function resultOf(end: RequestEnd): object {
  switch (end.kind) {
    case 'answered':
      return end.status < 400 ? { type: 'succeeded', message: end.body } : { type: 'errored', error: end.body };
    case 'refused':
      return { type: 'errored', error: refusal(end.message) };
    case 'cancelled':
      return { type: 'canceled' };
    case 'expired':
      return { type: 'expired' };
  }
}

/** One line of JSON for each request. */
export function resultsToWire(ends: AsyncIterable<RequestEnd>): Readable {
  async function* chunks(): AsyncGenerator<string> {
    let text = '';
    for await (const end of ends) {
      text += `${JSON.stringify({ custom_id: end.customId ?? '', result: resultOf(end) })}\n`;
      if (text.length < CHUNK_CHARACTERS) continue;
      yield text;
      text = '';
    }
    if (text !== '') yield text;
  }
  return Readable.from(chunks(), { objectMode: false });
}
