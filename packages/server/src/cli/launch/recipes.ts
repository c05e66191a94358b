import { AGENTS } from './agents.ts';
import { APPLICATIONS } from './applications.ts';
import { LIBRARIES } from './libraries.ts';
import type { Recipe } from './recipe.ts';

/** One table for `baobab launch --print`, docs/clients.md and `npm run test:clients`. */
export const RECIPES: Readonly<Record<string, Recipe>> = { ...AGENTS, ...APPLICATIONS, ...LIBRARIES };
