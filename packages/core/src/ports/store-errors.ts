/** Something with this name or id is already stored. */
export class DuplicateError extends Error {
  override readonly name = 'DuplicateError';
}

/** Another process has taken over the work that this one wanted to change. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';
}
