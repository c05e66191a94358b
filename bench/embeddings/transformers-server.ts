/** A minimal server: node:http around the feature-extraction pipeline of transformers.js. `MODELS` and `NAME` choose the model. */
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
// One computation can take longer than the timeout, and the server would close connections as idle.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(`http://127.0.0.1:${address.port}`);
});
process.on('SIGTERM', () => process.exit(0));
