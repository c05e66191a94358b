/** A part of a regular expression that has no counterpart in a grammar. */
export class UnsupportedPattern extends Error {
  override readonly name = 'UnsupportedPattern';
}

/** A pattern that would take too long to follow. */
export class ComplexPattern extends Error {
  override readonly name = 'ComplexPattern';
}
