import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {
  ChatEvent,
  ChatRequest,
  EmbeddingRequest,
  EngineModel,
  RerankRequest,
  TranscriptionRequest,
} from '../../packages/core/src/engine/engine.ts';
import { callContext } from '../../packages/core/src/engine/testing/call-context.ts';
import { pulled } from '../../packages/core/src/engine/testing/pulled-generation.ts';

/** One engine under test, and requests that it understands. Capabilities without requests are not tested. */
export interface EngineSubject {
  /** Called once; the suite disposes of the model. */
  open(): Promise<EngineModel>;
  embedding?: {
    dimensions: number;
    /** A smaller number of dimensions, for models that can be shortened. */
    shorter?: number;
    tooLong: string;
    /** Texts that take long enough to be cancelled. */
    slow: readonly string[];
  };
  rerank?: {
    query: string;
    /** The first one answers the query. */
    documents: readonly string[];
    tooLong: { query: string; documents: readonly string[]; param: string };
  };
  chat?: {
    /** Ends after at most this many tokens. */
    short: { request: ChatRequest; maxTokens: number };
    /** Generates long enough to be cancelled. */
    long: ChatRequest;
    tooLong: ChatRequest;
  };
  transcription?: { request: TranscriptionRequest; seconds: number; says: RegExp };
}

const cancelled = { code: 'client_cancelled' };
const tooLong = (param: string) => ({ code: 'context_length_exceeded', status: 422, param });

/** What services rely on, whatever runs the model. */
export function engineContract(name: string, subject: EngineSubject): void {
  describe(`the engine contract: ${name}`, () => {
    let model: EngineModel;
    const engine = () => model;
    beforeAll(async () => {
      model = await subject.open();
    });
    afterAll(() => model?.[Symbol.asyncDispose]());

    it('offers exactly the capabilities of its task', () => {
      const offered = (['embedding', 'rerank', 'chat', 'transcription'] as const).filter((each) => model[each]);
      expect(offered).toEqual(expect.arrayContaining(Object.keys(subject).filter((key) => key !== 'open')));
    });

    it('counts the tokens of a text', async () => {
      const [few, many] = await Promise.all([model.countTokens('one'), model.countTokens('one two three four five')]);
      expect(few).toBeGreaterThan(0);
      expect(many).toBeGreaterThan(few);
    });

    if (subject.embedding !== undefined) embeddingContract(engine, subject.embedding);
    if (subject.rerank !== undefined) rerankContract(engine, subject.rerank);
    if (subject.chat !== undefined) chatContract(engine, subject.chat);
    if (subject.transcription !== undefined) transcriptionContract(engine, subject.transcription);
  });
}

function embeddingContract(engine: () => EngineModel, subject: NonNullable<EngineSubject['embedding']>): void {
  const { dimensions, shorter } = subject;
  const embed = async (
    inputs: readonly string[],
    { signal, ...options }: Omit<EmbeddingRequest, 'inputs'> & { signal?: AbortSignal } = {},
  ) => {
    const { embedding } = engine();
    if (embedding === undefined) throw new Error('the model cannot embed');
    return embedding.embed({ inputs, ...options }, callContext(signal));
  };
  const texts = ['The ferry leaves at seven.', 'A baobab stores water in its trunk.', 'yes'];
  const vectorAt = ({ vectors, dimensions: size }: Awaited<ReturnType<typeof embed>>, index: number) =>
    vectors.subarray(index * size, (index + 1) * size);
  const dot = (a: Float32Array, b: Float32Array) => a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);

  describe('embedding', () => {
    it('gives one vector of unit length for each input, in their order', async () => {
      const together = await embed(texts);
      expect(together.dimensions).toBe(dimensions);
      expect(together.vectors).toHaveLength(texts.length * dimensions);
      for (const [index, text] of texts.entries()) {
        const vector = vectorAt(together, index);
        expect(dot(vector, vector)).toBeCloseTo(1, 4);
        expect(dot(vectorAt(await embed([text]), 0), vector)).toBeGreaterThan(0.98);
      }
    });

    it('counts the tokens of each input', async () => {
      const together = await embed(texts);
      const alone = await Promise.all(texts.map((text) => embed([text])));
      expect(together.tokens).toHaveLength(texts.length);
      expect(together.tokens.every((count) => Number.isInteger(count) && count > 0)).toBe(true);
      const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
      expect(sum(together.tokens)).toBe(sum(alone.flatMap(({ tokens }) => tokens)));
    });

    it.runIf(shorter !== undefined)('keeps the leading dimensions and unit length when shortened', async () => {
      const whole = vectorAt(await embed(texts), 1).subarray(0, shorter);
      const cut = await embed(texts, { dimensions: shorter ?? 0 });
      const vector = vectorAt(cut, 1);
      expect(cut.dimensions).toBe(shorter);
      expect(dot(vector, vector)).toBeCloseTo(1, 4);
      expect(dot(whole, vector) / Math.sqrt(dot(whole, whole))).toBeGreaterThan(0.98);
    });

    it('refuses an input that is too long, and names it', async () => {
      await expect(embed(['fine', subject.tooLong])).rejects.toMatchObject(tooLong('inputs[1]'));
    });

    it('cuts either side of an input that is too long, if it may, and counts it', async () => {
      for (const side of ['start', 'end'] as const) {
        const cut = await embed(['fine', subject.tooLong], { truncation: { side } });
        expect(cut.truncated).toBe(1);
        const vector = vectorAt(cut, 1);
        expect(dot(vector, vector)).toBeCloseTo(1, 4);
        const [fine = 0, most = 0] = cut.tokens;
        expect(most).toBeGreaterThanOrEqual(fine);
        expect((await embed(['fine'], { truncation: { side } })).truncated ?? 0).toBe(0);
      }
    });

    it('stops when it is cancelled, and works on', async () => {
      await expect(embed(texts, { signal: AbortSignal.abort() })).rejects.toMatchObject(cancelled);
      const client = new AbortController();
      const running = expect(embed(subject.slow, { signal: client.signal })).rejects.toMatchObject(cancelled);
      client.abort();
      await running;
      expect((await embed(texts)).tokens).toHaveLength(texts.length);
    });
  });
}

function rerankContract(engine: () => EngineModel, subject: NonNullable<EngineSubject['rerank']>): void {
  const { query, documents } = subject;
  const rerank = async ({ query, documents, truncation }: RerankRequest, signal?: AbortSignal) => {
    const capability = engine().rerank;
    if (capability === undefined) throw new Error('the model cannot rerank');
    return capability.rerank({ query, documents, truncation }, callContext(signal));
  };

  describe('rerank', () => {
    it('gives one score from 0 to 1 for each document, in their order', async () => {
      const { scores } = await rerank(subject);
      expect(scores).toHaveLength(documents.length);
      expect(scores.every((score) => score >= 0 && score <= 1)).toBe(true);
      expect(scores.indexOf(Math.max(...scores))).toBe(0);
      const reversed = await rerank({ query, documents: documents.toReversed() });
      for (const [index, score] of scores.toReversed().entries()) expect(reversed.scores[index]).toBeCloseTo(score, 2);
    });

    it('counts tokens, more of them for more documents', async () => {
      const all = await rerank(subject);
      const one = await rerank({ query, documents: documents.slice(0, 1) });
      expect(Number.isInteger(all.tokens)).toBe(true);
      expect(one.tokens).toBeGreaterThan(0);
      expect(all.tokens).toBeGreaterThan(one.tokens);
    });

    it('refuses what is too long, and names it', async () => {
      await expect(rerank(subject.tooLong)).rejects.toMatchObject(tooLong(subject.tooLong.param));
    });

    it('cuts what is too long, if it may, and counts it', async () => {
      const cut = await rerank({ ...subject.tooLong, truncation: { side: 'end' } });
      expect(cut.truncated).toBe(subject.tooLong.documents.length);
      expect(cut.scores.every((score) => score >= 0 && score <= 1)).toBe(true);
    });

    it('stops when it is cancelled, and works on', async () => {
      await expect(rerank(subject, AbortSignal.abort())).rejects.toMatchObject(cancelled);
      const client = new AbortController();
      const many = { query, documents: Array.from({ length: 64 }, () => documents).flat() };
      const running = expect(rerank(many, client.signal)).rejects.toMatchObject(cancelled);
      client.abort();
      await running;
      expect((await rerank(subject)).scores).toHaveLength(documents.length);
    });
  });
}

function chatContract(engine: () => EngineModel, subject: NonNullable<EngineSubject['chat']>): void {
  const generate = (request: ChatRequest, signal?: AbortSignal) => {
    return pulled(engine().chat, request, callContext(signal));
  };
  const textOf = (events: readonly ChatEvent[]) =>
    events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('');

  describe('chat', () => {
    it('starts, gives text and ends with what was used', async () => {
      const { request, maxTokens } = subject.short;
      const generation = generate(request);
      const events = await Array.fromAsync(generation);
      const end = events.at(-1);
      expect(events[0]).toMatchObject({ type: 'start' });
      expect(textOf(events)).not.toBe('');
      if (end?.type !== 'end') throw new Error('the last event is not the end');
      expect(['stop', 'length']).toContain(end.reason);
      expect(end.usage.promptTokens).toBeGreaterThan(0);
      expect(end.usage.completionTokens).toBeGreaterThan(0);
      expect(end.usage.completionTokens).toBeLessThanOrEqual(maxTokens);
      expect(end.usage.cachedTokens).toBeLessThanOrEqual(end.usage.promptTokens);
      expect(generation.usageSoFar()).toEqual(end.usage);
    });

    it('serves two requests at once without mixing them', async () => {
      const alone = textOf(await Array.fromAsync(generate(subject.short.request)));
      const both = await Promise.all([1, 2].map(() => Array.fromAsync(generate(subject.short.request))));
      expect(both.map(textOf)).toEqual([alone, alone]);
    });

    it('stops when it is cancelled, and has counted what it generated', async () => {
      const client = new AbortController();
      const generation = generate(subject.long, client.signal);
      let deltas = 0;
      const reading = async () => {
        for await (const { type } of generation) {
          deltas += type === 'text-delta' ? 1 : 0;
          if (deltas === 2) client.abort();
        }
      };
      await expect(reading()).rejects.toMatchObject(cancelled);
      const usage = generation.usageSoFar();
      expect(usage.promptTokens).toBeGreaterThan(0);
      expect(await Array.fromAsync(generate(subject.short.request))).not.toEqual([]);
      expect(generation.usageSoFar()).toEqual(usage);
    });

    it('stops when its consumer leaves', async () => {
      const generation = generate(subject.long);
      for await (const { type } of generation) if (type === 'text-delta') break;
      const usage = generation.usageSoFar();
      expect(await Array.fromAsync(generate(subject.short.request))).not.toEqual([]);
      expect(generation.usageSoFar()).toEqual(usage);
    });

    it('does not begin when it is cancelled already', async () => {
      const generation = generate(subject.short.request, AbortSignal.abort());
      await expect(Array.fromAsync(generation)).rejects.toMatchObject(cancelled);
      expect(generation.usageSoFar()).toEqual({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 });
    });

    it('refuses a prompt that is too long', async () => {
      await expect(Array.fromAsync(generate(subject.tooLong))).rejects.toMatchObject({
        code: 'context_length_exceeded',
        status: 422,
      });
    });
  });
}

function transcriptionContract(engine: () => EngineModel, subject: NonNullable<EngineSubject['transcription']>): void {
  const transcribe = async (request: TranscriptionRequest, signal?: AbortSignal) => {
    const { transcription } = engine();
    if (transcription === undefined) throw new Error('the model cannot transcribe');
    return transcription.transcribe(request, callContext(signal));
  };

  describe('transcription', () => {
    it('gives the language and segments in the order of time, within the window', async () => {
      const { language, segments } = await transcribe(subject.request);
      expect(language).toMatch(/^[a-z]{2,3}$/);
      expect(segments.map(({ text }) => text).join('')).toMatch(subject.says);
      let at = 0;
      for (const { startSeconds, endSeconds } of segments) {
        expect(startSeconds).toBeGreaterThanOrEqual(at);
        expect(endSeconds).toBeGreaterThanOrEqual(startSeconds);
        at = startSeconds;
      }
      expect(segments.at(-1)?.endSeconds).toBeLessThanOrEqual(subject.seconds + 0.5);
    });

    it('stops when it is cancelled, and works on', async () => {
      await expect(transcribe(subject.request, AbortSignal.abort())).rejects.toMatchObject(cancelled);
      const client = new AbortController();
      const running = expect(transcribe(subject.request, client.signal)).rejects.toMatchObject(cancelled);
      client.abort();
      await running;
      expect((await transcribe(subject.request)).segments).not.toEqual([]);
    });
  });
}
