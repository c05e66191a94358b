import { useEffect, useState } from 'preact/hooks';

export type Theme = 'system' | 'light' | 'dark';

const STORED = 'baobab.theme';
const darkSystem = window.matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

function stored(): Theme {
  const value = localStorage.getItem(STORED);
  return value === 'light' || value === 'dark' ? value : 'system';
}

let theme = stored();

export function applyTheme(next: Theme = theme): void {
  theme = next;
  if (next === 'system') {
    localStorage.removeItem(STORED);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(STORED, next);
    document.documentElement.dataset.theme = next;
  }
  for (const listener of listeners) listener();
}

darkSystem.addEventListener('change', () => {
  for (const listener of listeners) listener();
});

/** The choice and what it means now. Charts draw on a canvas and need to know when colours change. */
export function useTheme(): { theme: Theme; dark: boolean } {
  const current = () => ({ theme, dark: theme === 'dark' || (theme === 'system' && darkSystem.matches) });
  const [value, setValue] = useState(current);
  useEffect(() => {
    const update = () => setValue(current());
    listeners.add(update);
    return () => {
      listeners.delete(update);
    };
  }, []);
  return value;
}
