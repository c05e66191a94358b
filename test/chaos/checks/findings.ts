const SHOWN = 5;

/** The same for findings that differ in ids, numbers and times. */
const kindOf = (finding: string): string => finding.replaceAll(/\S*\d\S*/g, '#');

/** How many findings there are of each kind, the most frequent first, and a few of each. */
export function describeFindings(findings: readonly string[]): string[] {
  return [...Map.groupBy(findings, kindOf)]
    .toSorted(([, left], [, right]) => right.length - left.length)
    .flatMap(([kind, [first = '', ...others]]) => {
      if (others.length === 0) return [`FINDING ${first}`];
      const shown = [first, ...others.slice(0, SHOWN - 1)];
      const more = others.length + 1 - shown.length;
      return [
        `FINDING ${others.length + 1} × ${kind}`,
        ...shown.map((finding) => `  ${finding}`),
        ...(more > 0 ? [`  and ${more} more`] : []),
      ];
    });
}
