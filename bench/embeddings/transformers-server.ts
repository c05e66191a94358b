/** What one writes in an afternoon: node:http around the feature-extraction pipeline of transformers.js. `MODELS` and `NAME` say of what. */
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { env, pipeline } from '@huggingface/transformers';

env.allowRemoteModels = false;
env.localModelPath = process.env.MODELS as string;
const extract = await pipeline('feature-extraction', process.env.NAME as string, { dtype: 'q8' });

const server = createServer(async (request, response) => {
  const { input } = (await json(request)) as { input: string | string[] };
  const texts = Array.isArray(input) ? input : [input];
  const vectors = await extract(texts, { pooling: 'mean', normalize: true });
  const data = (vectors.tolist() as number[][]).map((embedding, index) => ({ object: 'embedding', index, embedding }));
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ object: 'list', data, model: process.env.NAME }));
});
// It computes for longer than that in one go, and would take its clients for idle.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(`http://127.0.0.1:${address.port}`);
});
process.on('SIGTERM', () => process.exit(0));
