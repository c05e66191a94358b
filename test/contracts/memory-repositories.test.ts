import { memoryRepositories } from '../fixtures/memory-repositories.ts';
import { auditLogContract } from './audit-log.ts';
import { repositoriesContract } from './repositories.ts';

const open = async () => ({ ...memoryRepositories(), close: async () => {} });

repositoriesContract('memory', open);
auditLogContract('memory', open);
