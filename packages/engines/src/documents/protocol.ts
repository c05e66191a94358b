/** The protocol between the server and the process that reads a PDF file. */

export type ReadFailure =
  | { reason: 'damaged' }
  | { reason: 'encrypted' }
  | { reason: 'no-text' }
  | { reason: 'memory' }
  | { reason: 'too-many-pages'; pages: number; limit: number }
  | { reason: 'too-long'; limit: number };

/** The file comes on standard input, its text goes to standard output. */
export interface ReaderArguments {
  encoding: 'base64' | 'binary';
  maxPages: number;
  maxCharacters: number;
}
