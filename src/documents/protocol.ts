/** The protocol between the server and the process that reads a PDF file. */

/** On this descriptor the process writes `AT_WORK` when its code is loaded, and a `ReadFailure` as JSON if it refuses the file. */
export const REPORT_DESCRIPTOR = 3;
export const AT_WORK = '\n';

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
