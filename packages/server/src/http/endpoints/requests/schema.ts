import { Type } from 'typebox';
import { measureFields } from '../../answer/measure-schema.ts';
import { shortText } from '../../body/bounded.ts';
import { AccountChoice } from '../../request/account-choice.ts';

const nullableText = Type.Union([Type.String(), Type.Null()]);
const time = { anyOf: [{ format: 'date-time' }, { format: 'date' }] };

export const RequestsQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50, description: 'Requests on a page' })),
  after: Type.Optional(shortText({ minLength: 1, description: '`next_cursor` of the page before' })),
  start: Type.Optional(shortText({ description: 'Inclusive', documented: time })),
  end: Type.Optional(shortText({ description: 'Exclusive', documented: time })),
  model: Type.Optional(shortText({ minLength: 1, description: 'Slug' })),
  key: Type.Optional(shortText({ minLength: 1, description: 'Id of the key' })),
  region: Type.Optional(shortText({ minLength: 1, description: 'Where it was served' })),
  endpoint: Type.Optional(shortText({ minLength: 1, description: 'Such as `/v1/embeddings`' })),
  status: Type.Optional(
    shortText({
      description: 'A status such as `429`, a class such as `5xx`, or `error` for all from 400 on',
      documented: { pattern: '^([1-5][0-9]{2}|[1-5]xx|error)$' },
    }),
  ),
  request_id: Type.Optional(shortText({ minLength: 1, description: 'Value of `X-Request-ID`' })),
  account: AccountChoice,
});

const fields = {
  id: Type.String(),
  object: Type.Literal('request'),
  time: Type.String({ description: 'When it ended' }),
  account_id: Type.String(),
  key: Type.String(),
  key_name: Type.Union([Type.String(), Type.Null()], {
    description: 'Null: the key is gone, or it is one of an operator and the caller is not',
  }),
  endpoint: Type.String(),
  model: Type.Union([Type.String(), Type.Null()], { description: 'Null: refused before the model was known' }),
  version: nullableText,
  region: nullableText,
  status: Type.Integer({ description: 'HTTP status; 499 for a cancelled request' }),
  code: Type.Union([Type.String(), Type.Null()], { description: 'Of the error' }),
  message: Type.Union([Type.String(), Type.Null()], {
    description: 'Of the error, as the client got it, up to 500 characters; null for accounts with `zero_retention`',
  }),
  ...measureFields,
  cost_usd: Type.Number(),
  duration_ms: Type.Integer(),
  first_token_ms: Type.Union([Type.Integer(), Type.Null()]),
  replayed: Type.Boolean({ description: 'Answered from the stored answer of an idempotent request' }),
};

export const RequestEntryShape = Type.Object(fields);

export const RequestList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(RequestEntryShape),
  has_more: Type.Boolean(),
  next_cursor: nullableText,
});

const AttemptShape = Type.Object({
  upstream: Type.Union([Type.String(), Type.Null()], {
    description: 'Host and port; only for keys with the scope `admin`, like `detail`',
  }),
  region: Type.String(),
  outcome: Type.String({ description: '`ok`, or the kind of failure' }),
  detail: nullableText,
  duration_ms: Type.Integer(),
});

export const RequestDetail = Type.Object({
  ...fields,
  text: Type.Union(
    [
      Type.Object({
        prompt: Type.Union([Type.String(), Type.Null()], { description: 'The body of the request, as JSON' }),
        answer: Type.Union([Type.String(), Type.Null()], { description: 'The text of the answer' }),
        truncated: Type.Boolean({ description: 'More was sent than is kept' }),
      }),
      Type.Null(),
    ],
    {
      description:
        'Only of accounts with `store_prompts`, for keys of the same account with the scope `prompts`; null otherwise',
    },
  ),
  text_unavailable: Type.Union(
    [Type.Literal('not_kept'), Type.Literal('other_account'), Type.Literal('missing_scope'), Type.Null()],
    {
      description:
        'Why `text` is null: it is not kept, or it is, and belongs to another account, or the key lacks the scope `prompts`',
    },
  ),
  attempts: Type.Array(AttemptShape, {
    description: 'Upstreams that were tried, in order; empty for models that run on the server itself',
  }),
});
