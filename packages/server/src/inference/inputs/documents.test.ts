import { Readable } from 'node:stream';
import type { StoredFile } from '@baobab/core/domain/file.ts';
import { expect, it } from 'vitest';
import type { InferenceCall } from '../call.ts';
import { createDocuments } from './documents.ts';

const call = { principal: { account: { id: 'acc_1' }, key: { id: 'key_1' } } } as InferenceCall;

it('does not read text files that are certainly too long, and few of one account at a time', async () => {
  let [reading, most, opened] = [0, 0, 0];
  const content = Buffer.from('word '.repeat(240));
  const file = (id: string) =>
    ({ id, accountId: 'acc_1', purpose: 'user_data', bytes: id === 'long' ? 3_601 : content.length }) as StoredFile;
  const documents = createDocuments({
    files: {
      get: async (_accountId, id) => file(id),
      async open(_file, range) {
        const isHead = range?.end === 1_023;
        opened += 1;
        if (!isHead) most = Math.max(most, ++reading);
        return Readable.from(
          (async function* () {
            yield content;
            if (!isHead) reading -= 1;
          })(),
        );
      },
    },
    reader: { read: async () => ({ text: '' }) },
    settings: { maxPerRequest: 5, maxBytes: 100_000, maxCharacters: 1_200 },
  });
  const read = (fileId: string) => documents.read(call, [{ source: { fileId }, tag: 'document', field: 'file' }]);
  const texts = await Promise.all(Array.from({ length: 10 }, () => read('short')));
  expect(texts.flat().every((text) => typeof text === 'string' && text.includes('word word'))).toBe(true);
  expect(most).toBeLessThanOrEqual(2);
  opened = 0;
  await expect(read('long')).rejects.toMatchObject({ code: 'validation_failed' });
  expect(opened).toBeLessThanOrEqual(1);
});
