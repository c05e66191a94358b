import {
  BATCH_ENDPOINTS,
  BATCH_STATUSES,
  type Batch,
  type BatchProblem,
  type ModelBill,
  requestCounts,
} from '@baobab/core/domain/batch.ts';
import { addUsed, consumptionOf, toFields } from '@baobab/core/domain/measures.ts';
import { usdNumber } from '@baobab/core/domain/money.ts';
import { type Static, Type } from 'typebox';
import { patternInWords } from '../../../validation/expectation.ts';
import { clientName, type FieldNames } from '../../answer/field-names.ts';
import { measureFields } from '../../answer/measure-schema.ts';
import { Metadata as MetadataTexts, pathText, shortText } from '../../body/bounded.ts';
import { ExpiresAfter } from '../files/schema.ts';

const seconds = Type.Union([Type.Integer(), Type.Null()], { description: 'Unix time in seconds' });
const optionalId = Type.Union([Type.String(), Type.Null()]);
const Metadata = Type.Union([MetadataTexts, Type.Null()], {
  description: 'Up to 16 texts of your own',
});

export const CreateBatchRequest = Type.Object({
  input_file_id: shortText({ minLength: 1, description: 'A JSONL file of the purpose `batch`' }),
  endpoint: Type.Enum([...BATCH_ENDPOINTS], { description: 'Where every line of the file goes' }),
  completion_window: shortText({
    description: '`24h`, or another whole number of hours or days up to `7d`',
    documented: { pattern: '^(([1-9]|[1-9][0-9]|1[0-5][0-9]|16[0-8])h|[1-7]d)$' },
  }),
  metadata: Type.Optional(Metadata),
  output_expires_after: Type.Optional(
    Type.Union([ExpiresAfter, Type.Null()], { description: 'When the output and error files are deleted' }),
  ),
});

const Problem = Type.Object({
  code: Type.String(),
  message: Type.String(),
  param: Type.Union([Type.String(), Type.Null()]),
  line: Type.Union([Type.Integer(), Type.Null()]),
});

const BatchUsage = Type.Object({
  input_tokens: Type.Integer(),
  input_tokens_details: Type.Object({ cached_tokens: Type.Integer() }),
  output_tokens: Type.Integer(),
  output_tokens_details: Type.Object({
    reasoning_tokens: Type.Integer({
      description: 'Always 0: they are not counted apart from the other output tokens',
    }),
  }),
  total_tokens: Type.Integer(),
});

const Bill = Type.Object({
  model: Type.String({ description: 'Slug' }),
  requests: Type.Integer({ description: 'Lines that were billed' }),
  ...measureFields,
  cost_usd: Type.Number(),
});

export const BatchObject = Type.Object({
  id: Type.String(),
  object: Type.Literal('batch'),
  endpoint: Type.Enum([...BATCH_ENDPOINTS]),
  errors: Type.Optional(Type.Object({ object: Type.Literal('list'), data: Type.Array(Problem) })),
  input_file_id: Type.String(),
  completion_window: Type.String(),
  status: Type.Enum([...BATCH_STATUSES]),
  output_file_id: Type.Optional(optionalId),
  error_file_id: Type.Optional(optionalId),
  created_at: Type.Integer({ description: 'Unix time in seconds' }),
  in_progress_at: Type.Optional(seconds),
  expires_at: Type.Integer({ description: 'Unix time in seconds' }),
  finalizing_at: Type.Optional(seconds),
  completed_at: Type.Optional(seconds),
  failed_at: Type.Optional(seconds),
  expired_at: Type.Optional(seconds),
  cancelling_at: Type.Optional(seconds),
  cancelled_at: Type.Optional(seconds),
  request_counts: Type.Object({ total: Type.Integer(), completed: Type.Integer(), failed: Type.Integer() }),
  model: Type.Optional(
    Type.String({ description: 'Slug, once it has ended and if all billed lines are of one model' }),
  ),
  models: Type.Optional(
    Type.Array(Bill, {
      description: 'One for each model that was billed, as the ledger has it, once the batch has ended',
    }),
  ),
  cost_usd: Type.Optional(Type.Number({ description: 'All models together, once it has ended' })),
  usage: Type.Optional(BatchUsage),
  metadata: Metadata,
});

export const BatchList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(BatchObject),
  first_id: Type.Optional(Type.String()),
  last_id: Type.Optional(Type.String()),
  has_more: Type.Boolean(),
});

export const BatchQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'Batches in one answer' })),
  after: Type.Optional(
    Type.String({
      ...patternInWords('^batch_[0-9a-z]{1,64}$', 'the id of a batch such as batch_abc123'),
      description: 'Id of the last batch seen',
    }),
  ),
});

export const BatchParams = Type.Object({ batch_id: pathText({ description: 'Id of the batch, `batch_…`' }) });

export const BATCH_FIELDS: FieldNames = { inputFileId: 'input_file_id', completionWindow: 'completion_window' };

const problemToWire = (problem: BatchProblem): Static<typeof Problem> => ({
  ...problem,
  param: problem.param === null ? null : clientName([problem.param], BATCH_FIELDS),
});

function billsToWire(bills: readonly ModelBill[]) {
  const used = consumptionOf({});
  for (const bill of bills) addUsed(used, bill);
  const [first, ...others] = bills;
  return {
    ...(first !== undefined && others.length === 0 ? { model: first.model } : {}),
    models: bills.map((bill) => ({
      model: bill.model,
      requests: bill.requests,
      ...toFields(bill),
      cost_usd: usdNumber(bill.costNanoUsd),
    })),
    cost_usd: usdNumber(bills.reduce((sum, { costNanoUsd }) => sum + BigInt(costNanoUsd), 0n)),
    usage: {
      input_tokens: used.promptTokens,
      input_tokens_details: { cached_tokens: used.cacheReadTokens },
      output_tokens: used.completionTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: used.promptTokens + used.completionTokens,
    },
  };
}

/** Only fields that are set: the official schema has no nulls here. */
export function batchToWire(batch: Batch): Static<typeof BatchObject> {
  const time = (name: string, ms: number | null) => (ms === null ? {} : { [name]: Math.floor(ms / 1000) });
  const ended = (status: Batch['status']) => time(`${status}_at`, batch.status === status ? batch.endedAt : null);
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    ...(batch.problems.length === 0
      ? {}
      : { errors: { object: 'list' as const, data: batch.problems.map(problemToWire) } }),
    input_file_id: batch.inputFileId,
    completion_window: batch.completionWindow,
    status: batch.status,
    ...(batch.outputFileId === null ? {} : { output_file_id: batch.outputFileId }),
    ...(batch.errorFileId === null ? {} : { error_file_id: batch.errorFileId }),
    created_at: Math.floor(batch.createdAt / 1000),
    expires_at: Math.floor(batch.expiresAt / 1000),
    ...time('in_progress_at', batch.inProgressAt),
    ...time('finalizing_at', batch.finalizingAt),
    ...time('cancelling_at', batch.cancellingAt),
    ...ended('completed'),
    ...ended('failed'),
    ...ended('expired'),
    ...ended('cancelled'),
    request_counts: requestCounts(batch),
    ...(batch.bills === null ? {} : billsToWire(batch.bills)),
    metadata: batch.metadata,
  };
}
