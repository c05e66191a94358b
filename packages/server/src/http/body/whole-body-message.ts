import { IncomingMessage } from 'node:http';

export interface BodyReader {
  /** The Content-Length of the request. */
  bytes: number;
  /** Gets the body if it arrives in one piece. */
  take(body: Buffer): void;
  /** Called otherwise: read the body from the stream, which is still empty. */
  stream(): void;
}

/**
 * A request whose body can be read without its stream. A small body arrives in one piece together with its head. Reading it from the
 * stream takes three listeners and two more turns of the microtask queue: see docs/decisions/2026-11-16-bodies-by-hand.md.
 */
export class WholeBodyMessage extends IncomingMessage {
  #reader: BodyReader | undefined;
  #hasBegun = false;
  #isTaken = false;

  static {
    // Node keeps the last request of an idle connection, with the key in its head, until its body has been read. Types call this a property.
    Object.defineProperty(WholeBodyMessage.prototype, 'readableEnded', {
      get(this: WholeBodyMessage): boolean {
        return (this.#isTaken && this.complete) || Reflect.get(IncomingMessage.prototype, 'readableEnded', this);
      },
    });
  }

  readBody(reader: BodyReader): void {
    if (this.#hasBegun) reader.stream();
    else this.#reader = reader;
  }

  override push(piece: Buffer | null, encoding?: BufferEncoding): boolean {
    if (this.#isTaken) {
      // For Node, if the answer was sent before the end of the message.
      if (piece === null) this.emit('end');
      return true;
    }
    this.#hasBegun = true;
    const reader = this.#reader;
    if (reader === undefined) return super.push(piece, encoding);
    this.#reader = undefined;
    if (piece === null || piece.length !== reader.bytes) {
      reader.stream();
      return super.push(piece, encoding);
    }
    this.#isTaken = true;
    // Without this, Node drains the stream after the answer.
    this._read(0);
    reader.take(piece);
    return true;
  }
}
