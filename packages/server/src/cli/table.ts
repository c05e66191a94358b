import { printableLine } from '@baobab/core/domain/control-characters.ts';
import { isoTime } from '@baobab/core/domain/time/dates.ts';

/** Counts, amounts and sizes, such as 1,234, $0.25 or 98.4 MB. */
const NUMBER = /^\$?\d[\d,.]*( ([kMGT]?B|s))?$/;

/** A time in a table: `2026-11-18T01:43Z`. JSON has it to the millisecond. */
export const minuteText = (ms: number): string => `${isoTime(ms).slice(0, 16)}Z`;

/** Columns for people, numbers on the right. The last column is not padded. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(printableLine));
  const all = [headings, ...cells];
  const widths = headings.map((_, column) => Math.max(...all.map((row) => [...(row[column] ?? '')].length)));
  const areNumbers = headings.map((_, column) => {
    const filled = cells.map((row) => row[column] ?? '').filter((cell) => cell !== '' && cell !== '-');
    return filled.length > 0 && filled.every((cell) => NUMBER.test(cell));
  });
  const place = (cell: string, column: number, isLast: boolean): string => {
    const space = ' '.repeat((widths[column] ?? 0) - [...cell].length);
    if (areNumbers[column]) return space + cell;
    return isLast ? cell : cell + space;
  };
  return all
    .map((row) =>
      row
        .map((cell, column) => place(cell, column, column === row.length - 1))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
