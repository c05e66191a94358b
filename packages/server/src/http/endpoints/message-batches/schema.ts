import { MAX_BATCH_LINES } from '@baobab/core/domain/batch.ts';
import { Type } from 'typebox';
import { patternInWords } from '../../../validation/expectation.ts';
import { anyMembers, pathText } from '../../body/bounded.ts';

export const CUSTOM_ID = /^[a-zA-Z0-9_-]{1,64}$/;

const time = (description: string) => Type.String({ format: 'date-time', description });
const optionalTime = (description: string) =>
  Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description });
const count = (description: string) => Type.Integer({ minimum: 0, description });

/** Documentation: the body is read as a stream, see `request.ts`. */
export const CreateMessageBatch = Type.Object({
  requests: Type.Array(
    Type.Object({
      custom_id: Type.String({
        pattern: CUSTOM_ID.source,
        maxLength: 64,
        description: 'Your name for this request, once in a batch',
      }),
      params: anyMembers({
        description: 'A body of `POST /v1/messages` without `stream`. It is checked when it runs',
      }),
    }),
    { minItems: 1, maxItems: MAX_BATCH_LINES, description: 'Requests that run as messages of their own' },
  ),
});

export const MessageBatchObject = Type.Object({
  id: Type.String(),
  type: Type.Literal('message_batch'),
  processing_status: Type.Enum(['in_progress', 'canceling', 'ended']),
  request_counts: Type.Object({
    processing: count('All of them until the batch ends; the other numbers are 0 until then'),
    succeeded: count('Answered'),
    errored: count('Refused or failed'),
    canceled: count('Not run because the batch was canceled'),
    expired: count('Not run before the batch expired'),
  }),
  created_at: time('When it was created'),
  expires_at: time('When requests that have not run expire, 24 hours after its creation'),
  ended_at: optionalTime('When it ended'),
  cancel_initiated_at: optionalTime('When it was canceled'),
  archived_at: optionalTime('When its results were removed'),
  results_url: Type.Union([Type.String(), Type.Null()], {
    description: 'The path of the results, once it has ended and while they are kept',
  }),
});

export const MessageBatchList = Type.Object({
  data: Type.Array(MessageBatchObject),
  has_more: Type.Boolean(),
  first_id: Type.Union([Type.String(), Type.Null()]),
  last_id: Type.Union([Type.String(), Type.Null()]),
});

export const DeletedMessageBatch = Type.Object({ id: Type.String(), type: Type.Literal('message_batch_deleted') });

const cursor = (description: string) =>
  Type.Optional(
    Type.String({ ...patternInWords('^batch_[0-9a-z]{1,64}$', 'the id of a batch such as batch_abc123'), description }),
  );

export const MessageBatchQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 20, description: 'Batches in one answer' })),
  after_id: cursor('Older batches than this one'),
  before_id: cursor('Newer batches than this one; not together with `after_id`'),
});

export const MessageBatchParams = Type.Object({ batch_id: pathText({ description: 'Id of the batch, `batch_…`' }) });

export const MessageBatchResults = {
  description:
    'Lines `{"custom_id": …, "result": {"type": …}}`. The type is `succeeded` with a `message`, `errored` with an `error`, `canceled` or `expired`',
  content: { 'application/x-jsonl': { schema: Type.String() } },
};
