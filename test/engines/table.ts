import type { Feature } from './features/feature.ts';

/** Feature → what was found. */
export type Results = Map<string, string>;

/** Markdown for docs/engines.md. */
export function printTable(
  features: readonly Feature[],
  columns: Map<string, Results>,
  absent: readonly string[],
): string {
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`;
  const names = [...columns.keys()];
  const lines = features.map(({ name }) =>
    row([name, ...names.map((engine) => columns.get(engine)?.get(name) ?? '–')]),
  );
  const table = [row(['', ...names]), row(['---', ...names.map(() => '---')]), ...lines].join('');
  return absent.length === 0 ? table : `${table}\nLeft out:\n${absent.map((each) => `- ${each}\n`).join('')}`;
}
