/** The cause of an error when no engine got the request: whatever it contains, it cannot be at fault. */
export class UpstreamsAwayError extends Error {
  override readonly name = 'UpstreamsAwayError';
}
