import type { StoredFile } from '../../api/types.ts';

/** The server names the results of a batch after it. Their purpose is the same as that of its input. */
const RESULT = /^batch_[0-9a-z]+([0-9a-z]{4}_(?:output|error)\.jsonl)$/;

export const isResult = ({ purpose, filename }: Pick<StoredFile, 'purpose' | 'filename'>): boolean =>
  purpose === 'batch' && RESULT.test(filename);

export const isBatchInput = (file: Pick<StoredFile, 'purpose' | 'filename'>): boolean =>
  file.purpose === 'batch' && !isResult(file);

/** Names of results differ at the end only, which a narrow column would cut off. */
export const shortName = ({ filename }: Pick<StoredFile, 'filename'>): string => filename.replace(RESULT, 'batch_…$1');
