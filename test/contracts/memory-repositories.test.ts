import { memoryRepositories } from '../fixtures/memory-repositories.ts';
import { repositoriesContract } from './repositories.ts';

repositoriesContract('memory', async () => ({ ...memoryRepositories(), close: async () => {} }));
