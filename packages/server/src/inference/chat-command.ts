import type { ChatEvent, ChatRequest } from '@baobab/core/engine/engine.ts';
import type { DocumentReference } from './inputs/documents.ts';
import type { ImageReference } from './inputs/images.ts';

export interface ChatCommand {
  model: string;
  /** Number of independent answers. */
  choices: number;
  request: ChatRequest;
  /** A longer answer than the model can give is lowered, not refused. */
  lowersMaxTokens?: boolean | undefined;
  /** Images of the messages, in order. They are put into `request` when it is admitted. */
  images?: readonly PlacedImage[] | undefined;
  /** Files of the messages, in order. Their text is put into `request` when it is admitted. */
  documents?: readonly PlacedDocument[] | undefined;
}

/** Gets the events of each choice in order. A choice waits for the returned promise. `withheld`: the client gets nothing of the event. */
export type ChatSink = (choice: number, event: ChatEvent) => void | 'withheld' | Promise<void>;

/** Where a message has a file. */
export interface Position {
  /** Index of the message. */
  message: number;
  /** How many characters of the message's text come before it. */
  at: number;
}

export interface PlacedImage extends ImageReference, Position {}
export interface PlacedDocument extends DocumentReference, Position {}
