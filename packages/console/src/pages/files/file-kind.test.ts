import { expect, it } from 'vitest';
import { isBatchInput, shortName } from './file-kind.ts';

it('takes uploads as input of a batch, results of batches not', () => {
  const batch = (filename: string) => isBatchInput({ purpose: 'batch', filename });
  expect(batch('requests.jsonl')).toBe(true);
  expect(batch('batch_of_monday.jsonl')).toBe(true);
  expect(batch('batch_0mwk62tlp9lefp9tradzw3jh_output.jsonl')).toBe(false);
  expect(batch('batch_0mwk62tlp9lefp9tradzw3jh_error.jsonl')).toBe(false);
  expect(isBatchInput({ purpose: 'transcription', filename: 'meeting.ogg' })).toBe(false);
});

it('shortens the names of results so that they differ', () => {
  const short = (filename: string) => shortName({ filename });
  expect(short('batch_0mwk62tlp9lefp9tradzw3jh_output.jsonl')).toBe('batch_…w3jh_output.jsonl');
  expect(short('batch_0mwk62tlp9lefp9tradzw3jh_error.jsonl')).toBe('batch_…w3jh_error.jsonl');
  expect(short('batch_of_monday.jsonl')).toBe('batch_of_monday.jsonl');
});
