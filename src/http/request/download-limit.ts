import { errors } from '../../errors/errors.ts';
import { type AccountLimit, createAccountLimit } from './account-limit.ts';

/** Of each account. A download keeps a connection to the blob store busy for as long as its client takes to read. */
const MAX_DOWNLOADS = 64;

export const createDownloadLimit = (): AccountLimit => createAccountLimit(MAX_DOWNLOADS, errors.tooManyDownloads);
