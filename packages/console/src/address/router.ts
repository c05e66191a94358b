import { useEffect, useState } from 'preact/hooks';

/** Where the server serves the console. */
export const BASE = '/console';

export interface Place {
  /** Below the base, without a slash at the end: `/usage`. */
  path: string;
  search: URLSearchParams;
}

type Listener = () => void;
const listeners = new Set<Listener>();
const announce = () => {
  for (const listener of listeners) listener();
};
window.addEventListener('popstate', announce);

function read(): Place {
  const path = location.pathname.slice(BASE.length).replace(/\/+$/, '');
  return { path: path === '' ? '/' : path, search: new URLSearchParams(location.search) };
}

export function href(path: string, search?: Record<string, string | undefined>): string {
  const query = new URLSearchParams(
    Object.entries(search ?? {}).filter((entry): entry is [string, string] => entry[1] !== undefined),
  ).toString();
  return `${BASE}${path === '/' ? '' : path}${query === '' ? '' : `?${query}`}`;
}

export function navigate(to: string, { replace = false } = {}): void {
  if (to === location.pathname + location.search) return;
  const pageChanges = new URL(to, location.origin).pathname !== location.pathname;
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  if (pageChanges) window.scrollTo(0, 0);
  announce();
}

export function usePlace(): Place {
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const update = () => setPlace(read());
    listeners.add(update);
    return () => {
      listeners.delete(update);
    };
  }, []);
  return place;
}

export type Changes = Record<string, string | undefined>;

/** Changes parameters of the address; undefined removes one. */
export function changeSearch(changes: Changes, { replace = false } = {}): void {
  const { path, search } = read();
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === '') search.delete(name);
    else search.set(name, value);
  }
  const query = search.toString();
  navigate(href(path) + (query === '' ? '' : `?${query}`), { replace });
}

/** One parameter of the address with its default. */
export function useParameter(name: string, fallback = ''): [string, (value: string | undefined) => void] {
  const { search } = usePlace();
  const value = search.get(name) ?? fallback;
  return [value, (next) => changeSearch({ [name]: next === fallback ? undefined : next })];
}

/** Lets plain links change the page without a reload. Links elsewhere, downloads and modified clicks stay with the browser. */
export function interceptLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = (event.target as Element | null)?.closest('a');
  if (link?.target !== '' || link.hasAttribute('download') || link.origin !== location.origin) return;
  if (link.pathname !== BASE && !link.pathname.startsWith(`${BASE}/`)) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
}
