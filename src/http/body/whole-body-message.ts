import { IncomingMessage } from 'node:http';

export interface BodyReader {
  /** As announced by the client. */
  bytes: number;
  /** Is given the body if it comes in one piece. */
  take(body: Buffer): void;
  /** Otherwise: is to read it from the stream, in which nothing is yet. */
  stream(): void;
}

/**
 * A request whose body can be had without its stream. A small body comes in one piece behind its head; to have it from the stream would
 * take three listeners, a dozen functions of Node and two more turns of its queue.
 */
export class WholeBodyMessage extends IncomingMessage {
  #reader: BodyReader | undefined;
  #hasBegun = false;
  #isTaken = false;

  readBody(reader: BodyReader): void {
    if (this.#hasBegun) reader.stream();
    else this.#reader = reader;
  }

  override push(piece: Buffer | null, encoding?: BufferEncoding): boolean {
    if (this.#isTaken) return true;
    this.#hasBegun = true;
    const reader = this.#reader;
    if (reader === undefined) return super.push(piece, encoding);
    this.#reader = undefined;
    if (piece === null || piece.length !== reader.bytes) {
      reader.stream();
      return super.push(piece, encoding);
    }
    this.#isTaken = true;
    // Otherwise Node reads the stream to its end when the answer has left.
    this._read(0);
    reader.take(piece);
    return true;
  }
}
