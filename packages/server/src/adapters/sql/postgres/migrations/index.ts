import type { SchemaMigration } from '../../shared/migrator.ts';
import * as initial from './0001-initial.ts';

/**
 * Run in the order of their names, forwards only. A released migration is never edited, and a new one sorts after all released ones.
 * An index on a table that may be large is built with `buildIndex`, in a migration of its own that is marked `concurrently`.
 */
export const MIGRATIONS: Readonly<Record<string, SchemaMigration>> = {
  '0001-initial': initial,
};
