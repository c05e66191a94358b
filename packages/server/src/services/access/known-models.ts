import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import { nearestSlug } from '@baobab/core/runtime/nearest.ts';

/** The slugs of the catalog. */
export type KnownModels = () => Promise<readonly string[]>;

/** Throws 400 with a suggestion for a slug that the catalog lacks. */
export function checkModelExists(slug: string, field: FieldPath, models: readonly string[]): void {
  if (models.includes(slug)) return;
  const meant = nearestSlug(slug.split('@', 1)[0] as string, models);
  const hint = meant === undefined ? 'The list of models has those that exist.' : `Did you mean '${meant}'?`;
  throw errors.invalidParameter(field, fieldText`${field}: there is no model '${slug}'. ${hint}`);
}
