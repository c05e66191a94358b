/** Something with this name or id is already stored. */
export class DuplicateError extends Error {
  override readonly name = 'DuplicateError';
}

/** The store cannot be opened or used. The message is for the operator. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError';
}
