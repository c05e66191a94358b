/** node-llama-cpp and nothing else, in a process of its own as the service's engine is: every sequence in one context, one batch. */
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';

export interface RawLlamaSetup {
  model: string;
  contextSize: number;
  sequences: number;
  threads: number;
}

export interface RawLlamaOrder {
  /** One for each stream, with the template of the model around it. */
  prompts: string[];
  maxTokens: number;
}

export interface StreamFigures {
  firstTokenMs: number[];
  tokens: number;
  tokensPerSecond: number;
}

const setup = await new Promise<RawLlamaSetup>((resolve) => process.once('message', resolve));
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 0, logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: setup.model });
const context = await model.createContext({
  contextSize: setup.contextSize,
  sequences: setup.sequences,
  threads: setup.threads,
});
const sequences = Array.from({ length: setup.sequences }, () => context.getSequence());

process.on('message', async ({ prompts, maxTokens }: RawLlamaOrder) => {
  const began = performance.now();
  const streams = await Promise.all(
    prompts.map(async (prompt, index) => {
      const sequence = sequences[index];
      if (sequence === undefined) throw new Error(`there are only ${sequences.length} sequences`);
      await sequence.clearHistory();
      const options = { temperature: 0.8, topP: 0.95, seed: index };
      let firstTokenMs = 0;
      let tokens = 0;
      for await (const _ of sequence.evaluate(model.tokenize(prompt, true), options)) {
        firstTokenMs ||= performance.now() - began;
        tokens += 1;
        if (tokens >= maxTokens) break;
      }
      return { firstTokenMs, tokens };
    }),
  );
  const tokens = streams.reduce((sum, stream) => sum + stream.tokens, 0);
  process.send?.({
    firstTokenMs: streams.map((stream) => stream.firstTokenMs),
    tokens,
    tokensPerSecond: tokens / ((performance.now() - began) / 1000),
  } satisfies StreamFigures);
});
process.send?.('ready');
