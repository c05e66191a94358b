import { baobab } from './baobab.ts';
import type { Dialect } from './dialect.ts';
import { llamaServer } from './llama-server.ts';
import { ollama } from './ollama.ts';
import { openai } from './openai.ts';
import { tei } from './tei.ts';
import { vllm } from './vllm.ts';

/** Every kind of upstream, by its name in the configuration. A new one is added here and nowhere else. `models add` tries them in this order. */
const DIALECTS = { openai, tei, baobab, vllm, ollama, 'llama-server': llamaServer } satisfies Record<string, Dialect>;

export type UpstreamKind = keyof typeof DIALECTS;
export const UPSTREAM_KINDS = Object.keys(DIALECTS) as UpstreamKind[];
export const ALL_DIALECTS: readonly Dialect[] = Object.values(DIALECTS);
export const dialectOf = (kind: UpstreamKind): Dialect => DIALECTS[kind];
