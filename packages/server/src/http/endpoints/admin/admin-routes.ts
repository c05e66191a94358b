import { errors } from '@baobab/core/errors/errors.ts';
import { KEY_FIELD_NAMES } from '../keys/schema.ts';

/** Shared by routes for operators; the command line does the same directly on the store. */
export const config = {
  fieldNames: {
    ...KEY_FIELD_NAMES,
    removalDate: 'on',
    storePrompts: 'store_prompts',
    zeroRetention: 'zero_retention',
  },
};
export const tags = ['Administration'];

export const noSuch = (what: string, id: string) =>
  errors.invalidParameter(what, `There is no ${what} '${id}'. GET /v1/admin/${what}s lists them.`);
