import { parseTimeZone } from '@baobab/core/domain/time/time-zone.ts';
import { dateTime, localTimeZone } from '../format/times.ts';
import { changeSearch } from './router.ts';

const CHOSEN = 'baobab.zone';
const known = new Map<string, boolean>();

function isZone(name: string): boolean {
  const found = known.get(name) ?? parseTimeZone(name) !== undefined;
  known.set(name, found);
  return found;
}

/** The zone of the address, else the one that was chosen last in this browser, else that of the browser. All times are shown in it. */
export function currentZone(): string {
  const names = [new URLSearchParams(location.search).get('zone'), localStorage.getItem(CHOSEN), localTimeZone()];
  return names.find((name) => name !== null && isZone(name)) ?? 'UTC';
}

export function chooseZone(name: string): void {
  localStorage.setItem(CHOSEN, name);
  changeSearch({ zone: name });
}

/** "19 Nov 2026, 14:03:22 Africa/Nairobi" */
export function exactTime(at: string | number): string {
  const zone = currentZone();
  return `${dateTime(at, zone)} ${zone}`;
}
