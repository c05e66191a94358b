export interface ConsoleFile {
  content: Buffer;
  brotli?: Buffer | undefined;
  gzip?: Buffer | undefined;
}

/** The built console. */
export interface ConsoleBundle {
  /** By path, such as `index.html`. Builds it when that was not done before. Empty where the console is not installed. */
  files(): Promise<ReadonlyMap<string, ConsoleFile>>;
}
