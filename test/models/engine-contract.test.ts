import { join } from 'node:path';
import { decodeAudio } from '../../packages/engines/src/audio/reader.ts';
import { load as loadLlama } from '../../packages/engines/src/llama/load.ts';
import { load as loadOnnx } from '../../packages/engines/src/onnx/load.ts';
import { engineContract } from '../contracts/engine.ts';
import { weights } from './weights.ts';

const long = (count: number) => 'water '.repeat(count);
const slow = Array.from({ length: 64 }, (_, index) => `${index} ${long(200)}`);

engineContract('onnx, embedding', {
  open: async () => loadOnnx(await weights('sentence-transformers/all-minilm-l6-v2')),
  embedding: { dimensions: 384, shorter: 128, tooLong: long(600), slow },
});

engineContract('onnx, late interaction', {
  open: async () => loadOnnx(await weights('baobab/rerank-small')),
  rerank: {
    query: 'Where does a baobab keep its water?',
    documents: ['A baobab stores water in its trunk.', 'The ferry leaves at seven.', 'Nine is a number.'],
    tooLong: { query: long(600), documents: ['a'], param: 'query' },
  },
});

const { signal } = new AbortController();
const clip = join(import.meta.dirname, '../fixtures/audio/meeting.ogg');
const samples = Float32Array.from((await Array.fromAsync(decodeAudio(clip, { signal }))).flatMap((part) => [...part]));

engineContract('onnx, transcription', {
  open: async () => loadOnnx(await weights('openai/whisper-tiny')),
  transcription: { request: { samples }, seconds: samples.length / 16_000, says: /good morning/i },
});

const SMALL_CHAT = 'huggingfacetb/smollm2-135m-instruct';
const CONTEXT = 512;
/** To cut an input takes the time of a context, and shows the same in a small one. */
const SMALL_CONTEXT = 128;

engineContract('llama, chat', {
  open: async () => loadLlama({ ...(await weights(SMALL_CHAT)), contextLength: CONTEXT, parallelSequences: 2 }),
  chat: {
    short: { request: { prompt: { text: 'One, two, three,' }, maxTokens: 5, temperature: 0 }, maxTokens: 5 },
    long: { prompt: { text: 'Once upon a time' }, maxTokens: 400, temperature: 0 },
    tooLong: { prompt: { text: long(600) } },
  },
});

engineContract('llama, embedding', {
  open: async () => {
    const spec = await weights<{ model: string }>(SMALL_CHAT);
    return loadLlama({ ...spec, engine: { ...spec.engine, task: 'embedding' }, contextLength: SMALL_CONTEXT });
  },
  embedding: { dimensions: 576, shorter: 64, tooLong: long(200), slow: Array.from({ length: 16 }, () => long(100)) },
});
