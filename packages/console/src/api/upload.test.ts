import { expect, it } from 'vitest';
import { purposeOf } from './upload.ts';

it.each([
  ['requests.jsonl', '', 'batch'],
  ['call.OGG', '', 'transcription'],
  ['memo.m4a', 'audio/mp4', 'transcription'],
  ['photo.png', 'image/png', 'vision'],
  ['report.pdf', 'application/pdf', 'user_data'],
  ['notes.txt', 'text/plain', 'user_data'],
])('%s of type "%s" is uploaded for %s', (name, type, purpose) => {
  expect(purposeOf({ name, type })).toBe(purpose);
});
