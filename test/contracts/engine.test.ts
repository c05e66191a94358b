import type { EngineModel } from '../../packages/core/src/engine/engine.ts';
import { CHAT, callContext, engineBed, testModel } from '../fixtures/engine-bed.ts';
import { answerJson } from '../fixtures/fake-upstream.ts';
import { remoteBench } from '../fixtures/remote-bench.ts';
import { engineContract } from './engine.ts';

/** A model of the scripted driver, through the host and an engine process. */
async function hosted(engine = testModel().version.engine): Promise<EngineModel> {
  const bed = engineBed();
  const lease = await bed.registry.acquire(testModel('test/contract', engine), callContext());
  const { engine: hosted } = lease;
  const countTokens = (text: string) => hosted.countTokens(text);
  return { ...hosted, countTokens, [Symbol.asyncDispose]: () => bed[Symbol.asyncDispose]() };
}

const rerank = { query: 'green apples', documents: ['green apples and green pears', 'red', 'green'] };
const samples = new Float32Array(16_000);

engineContract('the scripted driver through the host', {
  open: () => hosted(),
  embedding: { dimensions: 384, shorter: 96, tooLong: 'refuse', slow: ['slow:60000'] },
  rerank: { ...rerank, tooLong: { query: 'refuse', documents: ['a'], param: 'query' } },
  transcription: { request: { samples, language: 'en' }, seconds: 1, says: /16000 samples/ },
});

engineContract('a chat model of the scripted driver through the host', {
  open: () => hosted(CHAT),
  chat: {
    short: { request: { prompt: { text: 'count:3' } }, maxTokens: 3 },
    long: { prompt: { text: 'forever:' } },
    tooLong: { prompt: { text: 'refuse:' } },
  },
});

const words = (count: number) => Array.from({ length: count }, () => 'word').join(' ');

async function remote(task: 'embedding' | 'chat' | 'cross-encoder' | 'transcription'): Promise<EngineModel> {
  const kind = task === 'chat' ? 'vllm' : task === 'transcription' ? 'openai' : 'tei';
  const bench = await remoteBench({
    upstreams: [{ kind, behaviour: { chunkDelayMs: 1, maxPromptTokens: 64 } }],
    model: { task },
  });
  const [upstream] = bench.upstreams;
  if (task === 'transcription') {
    const segment = { id: 0, start: 0, end: 1, text: ' Hello.', tokens: [1], temperature: 0, avg_logprob: -0.1 };
    const answer = { language: 'english', segments: [{ ...segment, compression_ratio: 1, no_speech_prob: 0 }] };
    for (let n = 0; n < 8; n += 1) upstream?.script.push(answerJson(200, answer));
  }
  return { ...bench.engine(), [Symbol.asyncDispose]: () => bench.close() };
}

engineContract('the remote engine, embedding', {
  open: () => remote('embedding'),
  embedding: { dimensions: 8, shorter: 4, tooLong: words(100), slow: Array.from({ length: 200 }, () => 'text') },
});

engineContract('the remote engine, rerank', {
  open: () => remote('cross-encoder'),
  rerank: { ...rerank, tooLong: { query: 'a', documents: [words(100)], param: 'documents[0]' } },
});

engineContract('the remote engine, transcription', {
  open: () => remote('transcription'),
  transcription: { request: { samples, language: 'en' }, seconds: 1, says: /Hello/ },
});

engineContract('the remote engine, chat', {
  open: () => remote('chat'),
  chat: {
    short: { request: { prompt: { text: 'hello' } }, maxTokens: 6 },
    long: { prompt: { text: 'hello' } },
    tooLong: { prompt: { text: words(100) } },
  },
});
