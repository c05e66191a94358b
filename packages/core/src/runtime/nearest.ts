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

/** The known word that a mistyped one probably means, if one is close enough. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const most = word.length > 5 ? 2 : 1;
  const [best] = known
    .filter((each) => Math.abs(each.length - word.length) <= most)
    .map((each) => ({ each, edits: distance(word, each) }))
    .filter(({ edits }) => edits <= most)
    .sort((left, right) => left.edits - right.edits);
  return best?.each;
}

/** The same for slugs of models, `provider/name`, when the provider may have been left out. */
export function nearestSlug(text: string, slugs: readonly string[]): string | undefined {
  // Once: a name that a client sends may have megabytes.
  const hasProvider = text.includes('/');
  const nameOf = (slug: string) => (hasProvider ? slug : slug.slice(slug.indexOf('/') + 1));
  const name = nearest(text, slugs.map(nameOf));
  return slugs.find((slug) => nameOf(slug) === name);
}
