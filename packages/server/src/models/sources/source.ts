/** What a file must turn out to be. */
export interface ExpectedFile {
  readonly as: string;
  readonly bytes: number | null;
  readonly sha256: string | null;
  /** Second best where a hub knows no sha256 of a small file. */
  readonly gitOid: string | null;
  /** Names of the pieces that, joined in order, are the file. Equal names mean equal content. */
  readonly pieces: readonly string[];
}

export interface FetchContext {
  readonly signal: AbortSignal;
  /** Holds each finished piece under its name. A source may keep other files here. */
  readonly piecesDirectory: string;
  onBytes(as: string, count: number): void;
}

/** Weights that have to be fetched. */
export interface RemoteSource {
  describe(signal: AbortSignal): Promise<readonly ExpectedFile[]>;
  /** Brings the missing pieces of these files. */
  fetch(files: readonly ExpectedFile[], context: FetchContext): Promise<void>;
  /** One cheap question: would a pull find its source? */
  probe(signal: AbortSignal): Promise<void>;
  /** Models with equal keys are reachable together. */
  readonly probeKey: string;
}

/** Where the catalog gives no size. */
export const MAX_FILE_BYTES = 64 * 1024 ** 3;
