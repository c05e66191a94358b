/** A name that a client sends may have megabytes. */
const MOST_COMPARED = 300;

/** Edits of one letter between two words: added, removed, replaced, or swapped with the next one. */
function distance(left: string, right: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1];
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      current[column] = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
        swapped ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [beforeLast, last] = [last, current];
  }
  return last[right.length] ?? 0;
}

/** Shorter texts are part of too many words. */
const LEAST_PART = 3;

/** The words between dashes and slashes: `--monthly-budget` has two. */
const partsOf = (word: string): string[] => word.split(/[-/]+/).filter((part) => part !== '');

const hasParts = (parts: readonly string[], within: readonly string[]): boolean =>
  within.some((_, start) => parts.every((part, index) => within[start + index] === part));

/** The only known word of which this one is a part, or that is a part of it, by whole words: `--budget` of `--monthly-budget`. */
function onlyWithParts(word: string, known: readonly string[]): string | undefined {
  if (word.length > MOST_COMPARED || word.length < LEAST_PART) return undefined;
  const parts = partsOf(word);
  if (parts.length === 0) return undefined;
  const found = known.filter((each) => {
    const others = partsOf(each);
    return others.length > 0 && (hasParts(parts, others) || hasParts(others, parts));
  });
  return found.length === 1 ? found[0] : undefined;
}

/** The known word that a mistyped one probably means, if one is close enough. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const most = word.length > 5 ? 2 : 1;
  const [best] = known
    .filter((each) => Math.abs(each.length - word.length) <= most)
    .map((each) => ({ each, edits: distance(word, each) }))
    .filter(({ edits }) => edits <= most)
    .sort((left, right) => left.edits - right.edits);
  return best?.each ?? onlyWithParts(word, known);
}

/** The same for slugs of models, `provider/name`, when the provider may have been left out. */
export function nearestSlug(text: string, slugs: readonly string[]): string | undefined {
  // Once: a name that a client sends may have megabytes.
  const hasProvider = text.includes('/');
  const nameOf = (slug: string) => (hasProvider ? slug : slug.slice(slug.indexOf('/') + 1));
  const name = nearest(text, slugs.map(nameOf));
  return slugs.find((slug) => nameOf(slug) === name);
}
