import { type LedgerLine, priceOf } from './books.ts';

/** What a client received for one request. */
export interface Received {
  model: string;
  promptTokens: number;
  completionTokens: number;
  cacheReadTokens: number;
  discountPercent: number;
}

export interface Receipts {
  whole(requestId: string, seen: Received): void;
  /** Cancelled by the client: billed for at least what it received, and at most once. */
  part(requestId: string, leastCompletionTokens: number): void;
  /** Cancelled before its id was known: may or may not be billed. */
  lost(): void;
  problem(text: string): void;
  readonly counts: { whole: number; part: number; lost: number };
  /** All differences between the ledger and the clients. */
  compare(ledger: readonly LedgerLine[]): string[];
}

export function createReceipts(): Receipts {
  const whole = new Map<string, Received>();
  const part = new Map<string, number>();
  const problems: string[] = [];
  let lost = 0;

  function compareWhole(line: LedgerLine, seen: Received): string[] {
    const received = { ...seen };
    const { model, promptTokens, completionTokens, cacheReadTokens, discountPercent } = line;
    const billed = { model, promptTokens, completionTokens, cacheReadTokens, discountPercent };
    const [left, right] = [JSON.stringify(received), JSON.stringify(billed)];
    return left === right && line.status === 200 ? [] : [`${line.requestId}: received ${left}, billed ${right}`];
  }

  return {
    whole: (requestId, seen) => void whole.set(requestId, seen),
    part: (requestId, leastCompletionTokens) => void part.set(requestId, leastCompletionTokens),
    lost() {
      lost += 1;
    },
    problem: (text) => void problems.push(text),
    get counts() {
      return { whole: whole.size, part: part.size, lost };
    },
    compare(ledger) {
      const found = [...problems];
      const billed = new Set<string>();
      let unknown = 0;
      for (const line of ledger) {
        if (billed.has(line.requestId)) found.push(`${line.requestId}: billed twice`);
        billed.add(line.requestId);
        if (line.costNanoUsd !== priceOf(line))
          found.push(`${line.requestId}: costs ${line.costNanoUsd}, not ${priceOf(line)}`);
        const seen = whole.get(line.requestId);
        const least = part.get(line.requestId);
        if (seen !== undefined) found.push(...compareWhole(line, seen));
        else if (least === undefined) unknown += 1;
        else if (line.completionTokens < least)
          found.push(`${line.requestId}: got ${least} tokens, billed ${line.completionTokens}`);
      }
      for (const requestId of whole.keys())
        if (!billed.has(requestId)) found.push(`${requestId}: answered, not billed`);
      for (const [requestId, least] of part) {
        if (least > 0 && !billed.has(requestId)) found.push(`${requestId}: got ${least} tokens, not billed`);
      }
      if (unknown > lost) found.push(`${unknown} billed requests that no client knows, ${lost} were lost`);
      return found;
    },
  };
}
