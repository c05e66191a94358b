/** A secret that operators may replace while the service runs. */
export interface Secret {
  /** As it was read last. */
  readonly value: string;
  /** Reads it again, because it was refused or is about to be used. Returns the value to use: the old one if there is no usable new one. */
  reread(): string;
}
