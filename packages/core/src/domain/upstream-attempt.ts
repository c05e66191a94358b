/** How one call to one upstream ended. */
export interface UpstreamAttempt {
  /** Host and port. */
  upstream: string;
  region: string;
  /** `ok`, or the kind of failure. */
  outcome: string;
  durationMs: number;
  /** What the upstream said, for operators. */
  detail: string | null;
}
