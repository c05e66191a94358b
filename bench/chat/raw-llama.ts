/** Only node-llama-cpp, in its own process like the service's engine: all sequences in one context and one batch. */
import { getLlama, LlamaLogLevel, type Token } from 'node-llama-cpp';

export interface RawLlamaSetup {
  model: string;
  contextSize: number;
  sequences: number;
  threads: number;
}

export interface RawLlamaOrder {
  /** One per stream, inside the model's template. */
  prompts: string[];
  maxTokens: number;
}

export interface StreamFigures {
  /** Per stream. */
  firstTokenMs: number[];
  promptTokens: number[];
  /** Prompt tokens per stream that the sequence already had. */
  cachedTokens: number[];
  tokens: number;
  tokensPerSecond: number;
}

/** The same sampling as the service with only `top_p` set. */
const SAMPLING = { temperature: 0.8, topP: 0.95, topK: 4_096, minP: 0 };

const setup = await new Promise<RawLlamaSetup>((resolve) => process.once('message', resolve));
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 0, logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: setup.model });
const context = await model.createContext({
  contextSize: setup.contextSize,
  sequences: setup.sequences,
  threads: setup.threads,
});
const sequences = Array.from({ length: setup.sequences }, () => context.getSequence());

function tokensOf(prompt: string): Token[] {
  const { bos, shouldPrependBosToken } = model.tokens;
  const tokens = model.tokenize(prompt, true);
  return bos !== null && shouldPrependBosToken ? [bos, ...tokens] : tokens;
}

/** The last prompt token is always evaluated: its logits choose the first new token. */
function commonPrefix(held: readonly Token[], tokens: readonly Token[]): number {
  const different = tokens.findIndex((token, at) => token !== held[at]);
  return Math.min(different === -1 ? tokens.length : different, tokens.length - 1);
}

async function answer(index: number, prompt: string, maxTokens: number) {
  const began = performance.now();
  const sequence = sequences[index];
  if (sequence === undefined) throw new Error(`there are only ${sequences.length} sequences`);
  const promptTokens = tokensOf(prompt);
  const kept = commonPrefix(sequence.contextTokens, promptTokens);
  await sequence.eraseContextTokenRanges([{ start: kept, end: sequence.nextTokenIndex }]);
  let firstTokenMs = 0;
  let tokens = 0;
  for await (const _ of sequence.evaluate(promptTokens.slice(kept), { ...SAMPLING, seed: index })) {
    firstTokenMs ||= performance.now() - began;
    tokens += 1;
    if (tokens >= maxTokens) break;
  }
  return { firstTokenMs, tokens, promptTokens: promptTokens.length, cachedTokens: kept };
}

process.on('message', async ({ prompts, maxTokens }: RawLlamaOrder) => {
  const began = performance.now();
  const streams = await Promise.all(prompts.map((prompt, index) => answer(index, prompt, maxTokens)));
  const tokens = streams.reduce((sum, stream) => sum + stream.tokens, 0);
  process.send?.({
    firstTokenMs: streams.map((stream) => stream.firstTokenMs),
    promptTokens: streams.map((stream) => stream.promptTokens),
    cachedTokens: streams.map((stream) => stream.cachedTokens),
    tokens,
    tokensPerSecond: tokens / ((performance.now() - began) / 1000),
  } satisfies StreamFigures);
});
process.send?.('ready');
