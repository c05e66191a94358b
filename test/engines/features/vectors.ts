import { MODEL } from '../service.ts';
import { type Feature, jsonOf, must, NotSupported, refused } from './feature.ts';

const EMBEDDINGS = '/v1/embeddings';
const RERANK = '/v1/rerank';
const words = (count: number): string => Array.from({ length: count }, (_, i) => `word${i}`).join(' ');
const embedding = (name: string, check: Feature['check']): Feature => ({ name, task: 'embedding', check });
const rerank = (name: string, check: Feature['check']): Feature => ({ name, task: 'rerank', check });

const inputs = ['A dog runs in the park.', 'Stock prices fell.'];
const documents = ['Paris is the capital of France.', 'Dogs bark.', 'The Seine runs through Paris.'];

export const vectorFeatures: readonly Feature[] = [
  embedding('embeddings, usage', async ({ ask, model }) => {
    const { data, usage } = jsonOf(await ask(EMBEDDINGS, { model: MODEL, input: inputs }));
    must(data.length === 2 && usage.prompt_tokens > 4, 'two vectors and their tokens were expected');
    for (const { embedding: vector } of data) {
      must(Array.isArray(vector) && vector.length === model.dimensions, `${vector.length} dimensions`);
      must(Math.abs(Math.hypot(...vector) - 1) < 1e-3, 'a vector is not of unit length');
    }
    return undefined;
  }),
  embedding('embeddings, base64', async ({ ask, model }) => {
    const { data } = jsonOf(await ask(EMBEDDINGS, { model: MODEL, input: inputs[0], encoding_format: 'base64' }));
    const bytes = Buffer.from(`${data[0]?.embedding}`, 'base64');
    must(bytes.length === 4 * (model.dimensions ?? 0), `${bytes.length} bytes`);
    return undefined;
  }),
  embedding('embeddings, `dimensions`', async ({ ask }) => {
    const { data } = jsonOf(await ask(EMBEDDINGS, { model: MODEL, input: inputs, dimensions: 32 }));
    const [vector] = data.map(({ embedding: each }) => each);
    must(Array.isArray(vector) && vector.length === 32, 'not 32 dimensions');
    must(Math.abs(Math.hypot(...vector) - 1) < 1e-3, 'the shorter vector is not of unit length');
    return 'cut here';
  }),
  embedding('embeddings, token ids', async ({ ask }) => {
    const answer = await ask(EMBEDDINGS, { model: MODEL, input: [[5, 6, 7]] });
    if (answer.status === 422) throw new NotSupported('422');
    must(jsonOf(answer).data.length === 1, 'no vector');
    return undefined;
  }),
  embedding('embeddings, 40 inputs', async ({ ask }) => {
    const input = Array.from({ length: 40 }, (_, i) => `text ${i}`);
    const { data } = jsonOf(await ask(EMBEDDINGS, { model: MODEL, input, dimensions: 2 }));
    must(data.length === 40, `${data.length} vectors`);
    return undefined;
  }),
  embedding('embeddings, too long input', async ({ ask, model }) => {
    const answer = await ask(EMBEDDINGS, { model: MODEL, input: ['short', words(model.contextLength)] });
    refused(answer, 422, 'context_length_exceeded', 'input[1]');
    return '422 with index';
  }),
  {
    ...embedding('embeddings of a chat model', async ({ ask }) => {
      refused(await ask(EMBEDDINGS, { model: MODEL, input: inputs }), 422, 'wrong_modality', 'model');
      return '422';
    }),
    aboutUnfit: true,
  },
  rerank('rerank, usage', async ({ ask, model }) => {
    const body = { model: MODEL, query: 'What is the capital of France?', documents };
    const { results } = jsonOf(await ask(RERANK, body));
    must(results.length === 3, `${results.length} results`);
    must(
      results.every(({ relevance_score: score }) => score >= 0 && score <= 1),
      'a score is not within 0 and 1',
    );
    if (model.hasSense) must(results[0]?.index === 0, 'the wrong document is first');
    return undefined;
  }),
  rerank('rerank, too long document', async ({ ask, model }) => {
    const body = { model: MODEL, query: 'France', documents: ['short', words(model.contextLength)] };
    refused(await ask(RERANK, body), 422, 'context_length_exceeded', 'documents[1]');
    return '422 with index';
  }),
];
