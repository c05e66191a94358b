import { useEffect, useRef } from 'preact/hooks';
import { keptSearch } from '../address/range.ts';
import { href, navigate } from '../address/router.ts';
import { Button } from '../components/button.tsx';
import { paletteKeys, sendKeys } from '../components/keyboard.ts';
import { Modal } from '../components/overlay.tsx';
import { applyTheme } from '../components/theme.ts';
import { texts } from '../texts/en/texts.ts';
import type { PageEntry } from './pages.ts';

const CHORD_MS = 1200;
export interface ShortcutActions {
  onPalette: () => void;
  onHelp: () => void;
  toggleNarrow: () => void;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input,textarea,select,[contenteditable]') !== null;
}

/** `g` and a letter go to a page, other letters act at once. None of them while someone types. */
export function useShortcuts(pages: PageEntry[], actions: ShortcutActions): void {
  const latest = useRef({ pages, actions });
  latest.current = { pages, actions };
  useEffect(() => {
    let chordAt = Number.NEGATIVE_INFINITY;
    const onKey = (event: KeyboardEvent) => {
      const { pages: known, actions: act } = latest.current;
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        act.onPalette();
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector('dialog[open]')) return;
      if (event.timeStamp - chordAt < CHORD_MS) {
        chordAt = Number.NEGATIVE_INFINITY;
        const page = known.find(({ letter }) => letter === event.key);
        if (page) navigate(href(page.path, keptSearch(new URLSearchParams(location.search))));
        return;
      }
      if (event.key === 'g') chordAt = event.timeStamp;
      else if (event.key === '?') act.onHelp();
      else if (event.key === '[') act.toggleNarrow();
      else if (event.key === 'd')
        applyTheme(getComputedStyle(document.documentElement).colorScheme === 'dark' ? 'light' : 'dark');
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
}

export function ShortcutList({ pages, onClose }: { pages: PageEntry[]; onClose: () => void }) {
  const rows: [string[], string][] = [
    [[paletteKeys()], texts.shortcuts.palette],
    [['?'], texts.shortcuts.help],
    ...pages.map(({ letter, title }): [string[], string] => [['g', letter], texts.shortcuts.go(title)]),
    [['d'], texts.shortcuts.theme],
    [['['], texts.shortcuts.rail],
    [[sendKeys()], texts.shortcuts.send],
    [['Esc'], texts.shortcuts.close],
  ];
  return (
    <Modal
      title={texts.shortcuts.title}
      onClose={onClose}
      foot={<Button onClick={onClose}>{texts.common.close}</Button>}
    >
      <dl class="details">
        {rows.map(([keys, text]) => (
          <div key={text} class="details-row">
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Modal>
  );
}
