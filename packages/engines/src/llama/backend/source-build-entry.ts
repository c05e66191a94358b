import { getLlama, type LlamaGpuType } from 'node-llama-cpp';

/** Entry of the process that builds llama.cpp. Argument: the backend. */
const [, , backend = 'cuda'] = process.argv;
const llama = await getLlama({
  gpu: backend === 'cpu' ? false : (backend as LlamaGpuType),
  build: 'forceRebuild',
  progressLogs: true,
});
await llama.dispose();
