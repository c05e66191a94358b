/** Pulls one model in a process of its own. argv: a JSON object with the model, the directories and the registry. */
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { createWeightsStore, type StoredModel } from '../store.ts';
import { isolatedEnvironment } from './scratch-store.ts';

const { model, directory, home, registry } = JSON.parse(process.argv[2] ?? '{}') as {
  model: StoredModel;
  directory: string;
  home: string;
  registry: string;
};

await using store = createWeightsStore({
  directory,
  hfEndpoint: 'http://127.0.0.1:1',
  mavenRepository: 'http://127.0.0.1:1',
  pullOnUse: true,
  retryUnavailableSeconds: 60,
  environment: isolatedEnvironment(registry, home),
  workingDirectory: home,
  clock: systemClock,
  logger: { info: () => {}, warn: () => {} },
});
const pulled = await store.pull(model, { onProgress: () => process.stdout.write('progress\n') });
process.stdout.write(`${pulled.directory}\n`);
