/** Reads generated arguments, in whatever pieces, as the JSON that clients get. */
export interface ArgumentsReader {
  read(text: string): { json: string; done: boolean };
}
