import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import { nearestSlug } from '@baobab/core/runtime/nearest.ts';

export interface KnownModels {
  /** Those of the catalog. */
  slugs(): Promise<readonly string[]>;
  /** Where others may be. */
  hint?: string | undefined;
}

/** Throws 400 with a suggestion for a slug that the catalog lacks. */
export async function createModelCheck({ slugs, hint: elsewhere }: KnownModels) {
  const known = await slugs();
  return (slug: string, field: FieldPath): void => {
    if (known.includes(slug)) return;
    const meant = nearestSlug(slug.split('@', 1)[0] as string, known);
    const hint =
      meant === undefined
        ? (elsewhere ?? 'The list of models has those that exist.')
        : `Did you mean '${meant}'? ${elsewhere ?? ''}`.trimEnd();
    throw errors.invalidParameter(field, fieldText`${field}: there is no model '${slug}'. ${hint}`);
  };
}
