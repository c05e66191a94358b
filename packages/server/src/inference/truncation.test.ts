import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { expect, it } from 'vitest';
import { account, apiKey } from '../../../../test/contracts/key-fixtures.ts';
import type { InferenceCall } from './call.ts';
import { truncationFor } from './truncation.ts';

it('is what the request asks for, else what its key says, its account or the model', () => {
  const chosen = (
    asked: Parameters<typeof truncationFor>[2],
    ...[key, owner, model]: readonly ('none' | 'start' | 'end' | undefined)[]
  ) =>
    truncationFor(
      {
        principal: {
          key: apiKey({ truncateInputs: key ?? null }),
          account: account({ truncateInputs: owner ?? null }),
        },
      } as InferenceCall,
      { truncateInputs: model } as ModelEntry,
      asked,
    );
  expect(chosen(undefined)).toBeUndefined();
  expect(chosen(undefined, undefined, undefined, 'start')).toEqual({ side: 'start' });
  expect(chosen(undefined, undefined, 'end', 'start')).toEqual({ side: 'end' });
  expect(chosen(undefined, 'start', 'end')).toEqual({ side: 'start' });
  expect(chosen(undefined, 'none', 'end', 'end')).toBeUndefined();
  expect(chosen('none', 'end', 'end', 'end')).toBeUndefined();
  expect(chosen({ side: 'end', maxTokens: 5 }, 'none')).toEqual({ side: 'end', maxTokens: 5 });
});
