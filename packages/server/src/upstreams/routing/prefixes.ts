import { createHash } from 'node:crypto';
import type { ChatRequest } from '@baobab/core/engine/engine.ts';

/** Prompts that start with the same characters, up to this many, go to the same upstream: about 256 tokens. */
const LONGEST_START = 1_024;
/** Recomputing less costs less than an uneven load. */
const SHORTEST_START = 256;
/** How far above its share of the load an upstream may get before requests go to the next one. */
const OVERLOAD = 1.25;

/**
 * Names the prompts whose start an engine may have in its prefix cache. Lengths grow in powers of two, so that a conversation changes
 * its key only while it is short. Undefined: too short to matter.
 */
export function prefixKey(accountId: string, request: ChatRequest): string | undefined {
  const start = promptStart(request);
  if (start.length < SHORTEST_START) return undefined;
  return `${accountId}\n${start.slice(0, 2 ** Math.floor(Math.log2(start.length)))}`;
}

/** In the order of common chat templates. */
function promptStart({ prompt, tools }: ChatRequest): string {
  if ('text' in prompt) return prompt.text.slice(0, LONGEST_START);
  if ('tokens' in prompt) return prompt.tokens.slice(0, LONGEST_START).join().slice(0, LONGEST_START);
  let start = tools === undefined ? '' : JSON.stringify(tools.slice(0, 4)).slice(0, LONGEST_START);
  for (const { role, content } of prompt.messages) {
    if (start.length >= LONGEST_START) break;
    start += `${role}:${content.slice(0, LONGEST_START)}\n`;
  }
  return start.slice(0, LONGEST_START);
}

export interface PoolMember {
  readonly address: string;
  readonly weight: number;
  readonly inFlight: number;
  hasRoom(): boolean;
}

/**
 * The member that prompts with this key go to, or the next one in the key's own order if that one is overloaded (consistent hashing
 * with bounded loads). Every replica of Baobab chooses the same order. A member that comes or goes moves only its own share of keys.
 */
export function chooseByPrefix<T extends PoolMember>(key: string, members: readonly T[]): T | undefined {
  let weights = 0;
  let requests = 1;
  for (const { weight, inFlight } of members) {
    weights += weight;
    requests += inFlight;
  }
  const isOverloaded = ({ inFlight, weight }: T) => inFlight + 1 > Math.ceil((OVERLOAD * requests * weight) / weights);
  let best: T | undefined;
  let bestScore = Number.NEGATIVE_INFINITY;
  for (const member of members) {
    if (!member.hasRoom() || isOverloaded(member)) continue;
    const score = scoreOf(key, member);
    if (score > bestScore) [best, bestScore] = [member, score];
  }
  return best;
}

/** Rendezvous hashing: each member wins keys in proportion to its weight. */
function scoreOf(key: string, { address, weight }: PoolMember): number {
  const digest = createHash('sha1').update(address).update('\n').update(key).digest();
  const uniform = (digest.readUInt32LE(0) + 1) / (2 ** 32 + 1);
  return -weight / Math.log(uniform);
}

/** vLLM's size of a cache block: 16 tokens on GPUs, 128 on CPUs. */
const SMALLEST_BLOCK_TOKENS = 16;
const LARGEST_BLOCK_TOKENS = 128;
const PROMPTS_OF_ONE_ACCOUNT = 4;
const MAX_CHARACTERS = 8 * 1024 * 1024;

/** Estimates how many tokens of the prompt were in the cache when the request began. */
export type CachedTokensEstimate = (promptTokens: number) => number;

/**
 * Remembers the last prompts of each account, to estimate what a prefix cache gave to a new one. vLLM reports cached tokens only at
 * the end of a stream, so a cancelled stream would lose its discount.
 */
export interface PrefixMemory {
  estimator(accountId: string, request: ChatRequest): CachedTokensEstimate;
  /** The upstream has read the prompt. */
  remember(accountId: string, request: ChatRequest): void;
  /** The upstream has reported cached tokens: always whole blocks, which tells their size. */
  observe(cachedTokens: number): void;
}

/** The text that the prompt is made of, in the order of common chat templates. */
function promptText({ prompt, tools }: ChatRequest): string {
  if ('text' in prompt) return prompt.text;
  return 'tokens' in prompt ? prompt.tokens.join() : JSON.stringify(tools ?? []) + JSON.stringify(prompt.messages);
}

const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b));

function commonLength(a: string, b: string): number {
  const longest = Math.min(a.length, b.length);
  let length = 0;
  while (length < longest && a.charCodeAt(length) === b.charCodeAt(length)) length += 1;
  return length;
}

export function createPrefixMemory(): PrefixMemory {
  /** The account that was used last is at the end. */
  const accounts = new Map<string, readonly string[]>();
  let characters = 0;
  /** The greatest common divisor of the cached tokens reported so far. */
  let reportedBlock = 0;
  const blockTokens = (): number =>
    reportedBlock === 0 ? SMALLEST_BLOCK_TOKENS : Math.min(reportedBlock, LARGEST_BLOCK_TOKENS);

  const sizeOf = (prompts: readonly string[]): number => prompts.reduce((sum, { length }) => sum + length, 0);

  function set(accountId: string, prompts: readonly string[]): void {
    characters += sizeOf(prompts) - sizeOf(accounts.get(accountId) ?? []);
    accounts.delete(accountId);
    if (prompts.length > 0) accounts.set(accountId, prompts);
  }

  return {
    estimator(accountId, request) {
      const earlier = accounts.get(accountId) ?? [];
      return (promptTokens) => {
        const text = promptText(request);
        const common = Math.max(0, ...earlier.map((prompt) => commonLength(prompt, text)));
        const share = text.length === 0 ? 0 : common / text.length;
        // The last token is always computed, and only whole blocks are cached.
        const tokens = Math.min(promptTokens - 1, promptTokens * share);
        const block = blockTokens();
        return Math.max(0, Math.floor(tokens / block) * block);
      };
    },
    observe(cachedTokens) {
      reportedBlock = commonDivisor(reportedBlock, cachedTokens);
    },
    remember(accountId, request) {
      const text = promptText(request);
      if (text.length > MAX_CHARACTERS / PROMPTS_OF_ONE_ACCOUNT) return;
      const others = (accounts.get(accountId) ?? []).filter((prompt) => prompt !== text);
      set(accountId, [...others.slice(1 - PROMPTS_OF_ONE_ACCOUNT), text]);
      for (const oldest of accounts.keys()) {
        if (characters <= MAX_CHARACTERS) break;
        set(oldest, []);
      }
    },
  };
}
