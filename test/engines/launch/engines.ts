import type { EngineUnderTest } from './engine.ts';
import { llamaServer } from './llama-server.ts';
import { ollama } from './ollama.ts';
import { tei } from './tei.ts';
import { vllm } from './vllm.ts';

export const engines: readonly EngineUnderTest[] = [llamaServer, vllm, tei, ollama];
