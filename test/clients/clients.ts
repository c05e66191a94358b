import { agents } from './agents.ts';
import type { Client } from './client.ts';
import { libraries } from './libraries.ts';
import { litellm } from './litellm.ts';
import { openWebUi } from './open-webui.ts';

export const clients: readonly Client[] = [...agents, ...libraries, litellm, openWebUi];
