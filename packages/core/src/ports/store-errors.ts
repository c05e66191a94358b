/** Something with this name or id is already stored. */
export class DuplicateError extends Error {
  override readonly name = 'DuplicateError';
}

/** Another process has taken over the work that this one wanted to change. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';
}

/** A report took longer than reports may. */
export class ReportTooLongError extends Error {
  override readonly name = 'ReportTooLongError';
  readonly limitMs: number;

  constructor(limitMs: number) {
    super(`the report took longer than ${limitMs} ms`);
    this.limitMs = limitMs;
  }
}
