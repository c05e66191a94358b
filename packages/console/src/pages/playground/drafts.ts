import { useEffect, useState } from 'preact/hooks';
import { useSession } from '../../api/session.ts';

/** State that stays in this browser, apart for each account. */
export function useDraft<T extends object>(name: string, initial: T): [T, (changes: Partial<T>) => void] {
  const session = useSession();
  const place = `baobab.playground.${session.account.id}.${name}`;
  const [draft, setDraft] = useState<T>(() => {
    try {
      return { ...initial, ...(JSON.parse(localStorage.getItem(place) ?? '{}') as Partial<T>) };
    } catch {
      return initial;
    }
  });
  useEffect(() => {
    try {
      localStorage.setItem(place, JSON.stringify(draft));
    } catch {
      // The storage is full: the draft lives as long as the page.
    }
  }, [place, draft]);
  return [draft, (changes) => setDraft((before) => ({ ...before, ...changes }))];
}

/** One input for each line that is not blank. */
export const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
