import type { Quota } from './quotas.ts';

/** The text of a request and of its answer. */
export interface RequestText {
  requestId: string;
  accountId: string;
  /** Milliseconds since 1970. */
  time: number;
  /** Null: it had none, such as the sound of a transcription. */
  prompt: string | null;
  /** Null: there was none, or it was no text. */
  answer: string | null;
  /** More was sent than is kept. */
  truncated: boolean;
}

/** Prompts and answers, kept only for accounts that ask for it. */
export interface RequestTexts {
  /** False: the account would store more than its quota, or the request has a text already. */
  add(text: RequestText, quota: Quota): Promise<boolean>;
  get(requestId: string, accountId: string): Promise<RequestText | undefined>;
  /** Removes some that are older, and says how many. */
  removeOlder(than: number): Promise<number>;
  /** Removes some of an account, and says how many. */
  removeOfAccount(accountId: string): Promise<number>;
  /** Accounts that have texts and keep none. */
  accountsNotKeeping(): Promise<string[]>;
}
