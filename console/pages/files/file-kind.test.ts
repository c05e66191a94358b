import { expect, it } from 'vitest';
import { isBatchInput } from './file-kind.ts';

it('takes uploads as input of a batch, results of batches not', () => {
  const batch = (filename: string) => isBatchInput({ purpose: 'batch', filename });
  expect(batch('requests.jsonl')).toBe(true);
  expect(batch('batch_of_monday.jsonl')).toBe(true);
  expect(batch('batch_0mwk62tlp9lefp9tradzw3jh_output.jsonl')).toBe(false);
  expect(batch('batch_0mwk62tlp9lefp9tradzw3jh_error.jsonl')).toBe(false);
  expect(isBatchInput({ purpose: 'transcription', filename: 'meeting.ogg' })).toBe(false);
});
