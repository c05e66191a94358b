const DAY_S = 86_400;
const MONTH_S = 28 * DAY_S;

/** Labels of the time axis: hours with the date where it changes, days, or months. */
export function timeLabels(splits: number[], stepS: number, timeZone: string): string[] {
  const format = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat('en-GB', { timeZone, ...options });
  const day = format({ day: 'numeric', month: 'short' });
  if (stepS >= MONTH_S) {
    const month = format({ month: 'short', year: 'numeric' });
    return splits.map((split) => month.format(split * 1000));
  }
  if (stepS >= DAY_S) return splits.map((split) => day.format(split * 1000));
  const hour = format({ hour: '2-digit', minute: '2-digit' });
  let shown = '';
  return splits.map((split) => {
    const [date, time] = [day.format(split * 1000), hour.format(split * 1000)];
    const label = date === shown || shown === '' ? time : date;
    shown = date;
    return label;
  });
}
