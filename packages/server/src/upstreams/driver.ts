import type { Driver } from '@baobab/core/engine/driver.ts';

/** Models that only upstreams run. The catalog describes them; the configuration says where they are. */
export const remote = {
  name: 'remote',
  tasks: { chat: {}, embedding: {}, 'cross-encoder': {}, transcription: {} },
  settings: {},
} satisfies Driver;
