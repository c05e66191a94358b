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
