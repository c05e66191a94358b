import { LIFETIME_SECONDS } from '@baobab/core/domain/file.ts';
import { errors } from '@baobab/core/errors/errors.ts';

const ANCHOR = 'expires_after[anchor]';
const SECONDS = 'expires_after[seconds]';

/** Milliseconds in OpenAI's `expires_after`, which a form sends as two fields. Undefined: there is none. */
export function lifetimeOfForm(field: (name: string) => string | undefined): number | undefined {
  if (field('expires_after') !== undefined) {
    // Ignoring it would keep a file longer than its owner wants.
    throw errors.invalidParameter('expires_after', `Send 'expires_after' as two fields, '${ANCHOR}' and '${SECONDS}'.`);
  }
  const [anchor, seconds] = [field(ANCHOR), field(SECONDS)];
  if (anchor === undefined && seconds === undefined) return undefined;
  if (anchor === undefined) throw errors.missingParameter(ANCHOR);
  if (seconds === undefined) throw errors.missingParameter(SECONDS);
  if (anchor !== 'created_at') throw errors.invalidParameter(ANCHOR, `'${ANCHOR}' must be 'created_at'.`);
  const { min, max } = LIFETIME_SECONDS;
  const value = /^\d{1,10}$/.test(seconds) ? Number(seconds) : Number.NaN;
  if (!(value >= min && value <= max)) {
    throw errors.invalidParameter(SECONDS, `'${SECONDS}' must be a whole number from ${min} to ${max}.`);
  }
  return value * 1000;
}
