import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { RequestText, RequestTexts } from '@baobab/core/ports/request-texts.ts';

export interface RequestTextsService {
  /** Stores it a moment later: no request waits for it. */
  keep(text: RequestText): void;
  /** Waits for what is being stored. */
  flush(): Promise<void>;
  get(requestId: string, accountId: string): Promise<RequestText | undefined>;
  /** Removes texts that are too old, and those of accounts that no longer keep any. */
  sweep(): Promise<void>;
  eraseAccount(accountId: string): Promise<number>;
}

export interface RequestTextsSettings {
  textRetentionDays: number;
  textMaxBytes: number;
  textQuotaBytes: number;
}

export interface RequestTextsDependencies {
  texts: RequestTexts;
  settings: RequestTextsSettings;
  clock: Clock;
  onError(error: unknown): void;
}

/** Texts that may wait for the store; more are left out, so that a store that hangs does not fill the memory. */
const MAX_WAITING = 500;

/** As many whole characters as fit. */
export function cutText(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text;
  const bytes = Buffer.from(text);
  let end = maxBytes;
  // Bytes that begin with 10 continue a character.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}

async function untilNone(remove: () => Promise<number>): Promise<number> {
  let total = 0;
  for (let removed = await remove(); removed > 0; removed = await remove()) total += removed;
  return total;
}

export function createRequestTexts(dependencies: RequestTextsDependencies): RequestTextsService {
  const { texts, settings, clock, onError } = dependencies;
  const { textRetentionDays, textMaxBytes, textQuotaBytes } = settings;
  let waiting = 0;
  let running: Promise<unknown> = Promise.resolve();

  function cut(text: RequestText): RequestText {
    const [prompt, answer] = [text.prompt, text.answer].map((each) => each && cutText(each, textMaxBytes));
    const truncated = text.truncated || prompt !== text.prompt || answer !== text.answer;
    return { ...text, prompt: prompt ?? null, answer: answer ?? null, truncated };
  }

  return {
    keep(text) {
      if (textRetentionDays === 0 || waiting >= MAX_WAITING) return;
      waiting += 1;
      running = running
        .then(() => texts.add(cut(text), { items: 0, bytes: textQuotaBytes }))
        .catch(onError)
        .finally(() => {
          waiting -= 1;
        });
    },
    async flush() {
      await running;
    },
    async get(requestId, accountId) {
      await running;
      return texts.get(requestId, accountId);
    },
    async sweep() {
      await untilNone(() => texts.removeOlder(clock.now() - textRetentionDays * DAY_MS));
      for (const accountId of await texts.accountsNotKeeping()) {
        await untilNone(() => texts.removeOfAccount(accountId));
      }
    },
    eraseAccount: (accountId) => untilNone(() => texts.removeOfAccount(accountId)),
  };
}
