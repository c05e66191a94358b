import type { Migration } from 'kysely/migration';
import * as initial from './0001-initial.ts';

/** Run in the order of their names, forwards only. A released migration is never edited, and a new one sorts after all released ones. */
export const MIGRATIONS: Readonly<Record<string, Migration>> = {
  '0001-initial': initial,
};
