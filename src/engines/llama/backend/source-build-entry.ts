import { getLlama, type LlamaGpuType } from 'node-llama-cpp';

/** Entry of the process that builds llama.cpp. Argument: the backend. */
const llama = await getLlama({
  gpu: (process.argv[2] ?? 'cuda') as LlamaGpuType,
  build: 'forceRebuild',
  progressLogs: true,
});
await llama.dispose();
