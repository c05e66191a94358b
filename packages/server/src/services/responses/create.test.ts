import type { PendingResponse } from '@baobab/core/domain/response.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { expect, it } from 'vitest';
import { createResponseCreator, type ResponseCreatorDependencies } from './create.ts';

it('lets a background response fail whose stored request cannot be read', () => {
  const format = { failed: ({ body }: { body: unknown }) => ({ status: 'failed', body }) };
  const creator = createResponseCreator({ format } as unknown as ResponseCreatorDependencies<
    unknown,
    unknown,
    unknown
  >);
  const pending = { id: 'resp_1', createdAt: 0, conversationId: null, content: '{"id":"resp_1"}' };
  const failed = (request: string) =>
    creator.failed({ ...pending, request } as PendingResponse, errors.interruptedTooOften());
  expect(failed('{"body":"hi"}')).toEqual({ status: 'failed', content: '{"status":"failed","body":"hi"}' });
  expect(failed('{"bo')).toEqual({ status: 'failed', content: pending.content });
});
