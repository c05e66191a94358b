import type { Secret } from '../ports/secret.ts';

/** A text is a secret that never changes. */
export const asSecret = (secret: string | Secret): Secret =>
  typeof secret === 'string' ? { value: secret, reread: () => secret } : secret;
