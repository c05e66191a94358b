/** A file of a page for browsers. */
export interface StaticFile {
  content: Buffer;
  /** The same for the same content. */
  tag: string;
  brotli?: Buffer | undefined;
  gzip?: Buffer | undefined;
}

/** Built pages, such as the console. */
export interface StaticFiles {
  /** By path, such as `index.html`. Empty where the pages are not installed, or not built yet. */
  files(): Promise<ReadonlyMap<string, StaticFile>>;
}
