import { may } from '@baobab/core/domain/operations.ts';
import type { ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { keptSearch } from '../address/range.ts';
import { href, navigate, usePlace } from '../address/router.ts';
import { closeEvents, openEvents, useConnected } from '../api/events.ts';
import { useAccountFilter, useSession } from '../api/session.ts';
import { Button, LinkButton } from '../components/button.tsx';
import { Empty, Failure } from '../components/feedback.tsx';
import { Icon, Mark } from '../components/icon.tsx';
import { paletteKeys, sendKeys } from '../components/keyboard.ts';
import { Dialog, Modal } from '../components/overlay.tsx';
import { Skeleton } from '../components/page.tsx';
import { applyTheme } from '../components/theme.ts';
import { texts } from '../texts/en/texts.ts';
import { type PageEntry, pagesFor } from './pages.ts';
import { Palette } from './palette.tsx';
import { Rail } from './rail.tsx';

const NARROW = 'baobab.rail';

function useNarrowRail(): [boolean, () => void] {
  const [narrow, setNarrow] = useState(localStorage.getItem(NARROW) === 'narrow');
  return [
    narrow,
    () => {
      localStorage.setItem(NARROW, narrow ? 'wide' : 'narrow');
      setNarrow(!narrow);
    },
  ];
}

export function Shell({ onSignedOut }: { onSignedOut: () => void }) {
  const session = useSession();
  const { path } = usePlace();
  const pages = pagesFor(session);
  const page = pages.find((each) => each.path === path);
  const [narrow, toggleNarrow] = useNarrowRail();
  const [drawer, setDrawer] = useState(false);
  const [overlay, setOverlay] = useState<'palette' | 'shortcuts'>();
  const connected = useConnected();
  const account = useAccountFilter();
  const seesEvents = may(session, 'events.stream');
  useEffect(() => {
    if (!seesEvents) return undefined;
    openEvents(account);
    return closeEvents;
  }, [account, seesEvents]);
  const start = pages[0];
  const isElsewhere = path === '/' && page === undefined && start !== undefined;
  useEffect(() => {
    if (isElsewhere) navigate(href(start.path), { replace: true });
  }, [isElsewhere, start]);
  useShortcuts(pages, { onPalette: () => setOverlay('palette'), onHelp: () => setOverlay('shortcuts'), toggleNarrow });

  // A new page starts at its heading, also for screen readers.
  useEffect(() => {
    setDrawer(false);
    document.getElementById('page-title')?.focus({ preventScroll: true });
  }, [path]);

  const rail = (inDrawer: boolean) => (
    <Rail
      pages={pages}
      narrow={narrow && !inDrawer}
      connected={connected}
      onFind={() => {
        setDrawer(false);
        setOverlay('palette');
      }}
      onSignedOut={onSignedOut}
      onToggle={inDrawer ? undefined : toggleNarrow}
    />
  );

  return (
    <div class={narrow ? 'frame frame-narrow' : 'frame'}>
      <a class="skip" href="#content">
        {texts.nav.skip}
      </a>
      {rail(false)}
      <div class="content">
        <header class="topbar">
          <Button tone="quiet" icon="menu" label={texts.nav.menu} onClick={() => setDrawer(true)} />
          <a class="brand grow" href={href('/')}>
            <Mark />
            {texts.product}
          </a>
          <Button tone="quiet" icon="search" label={texts.nav.find} onClick={() => setOverlay('palette')} />
        </header>
        {!connected && (
          <div class="banner" role="status">
            <Icon name="warning" />
            {texts.errors.offline}
          </div>
        )}
        <main id="content">
          {page && <LazyPage key={page.path} page={page} />}
          {!page && !isElsewhere && (
            <div class="page">
              <Empty
                icon="search"
                title={texts.notFound.title}
                action={<LinkButton href={href('/')}>{texts.notFound.action}</LinkButton>}
              >
                <p>{texts.notFound.text}</p>
              </Empty>
            </div>
          )}
        </main>
      </div>
      {drawer && (
        <Dialog class="drawer" label={texts.nav.menu} onClose={() => setDrawer(false)}>
          {rail(true)}
        </Dialog>
      )}
      {overlay === 'palette' && <Palette pages={pages} onClose={() => setOverlay(undefined)} />}
      {overlay === 'shortcuts' && <ShortcutList pages={pages} onClose={() => setOverlay(undefined)} />}
    </div>
  );
}

const loaded = new Map<string, ComponentType>();

function LazyPage({ page }: { page: PageEntry }) {
  const [, setLoaded] = useState(false);
  const [error, setError] = useState<unknown>();
  const Content = loaded.get(page.path);
  useEffect(() => {
    if (loaded.has(page.path)) return;
    page.load().then((module) => {
      loaded.set(page.path, module.default);
      setLoaded(true);
    }, setError);
  }, [page]);
  // Browsers remember that a script could not be loaded, and after an upgrade it has another name: only a new document helps.
  const retry = () => fetch('/healthz').then(() => location.reload(), setError);
  if (Content) return <Content />;
  return (
    <div class="page">
      {error ? (
        <Failure error={error} onRetry={() => void retry()} />
      ) : (
        <>
          <div class="skeleton skeleton-title" />
          <Skeleton height={320} />
        </>
      )}
    </div>
  );
}

const CHORD_MS = 1200;
interface ShortcutActions {
  onPalette: () => void;
  onHelp: () => void;
  toggleNarrow: () => void;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input,textarea,select,[contenteditable]') !== null;
}

/** `g` and a letter go to a page, other letters act at once. None of them while someone types. */
function useShortcuts(pages: PageEntry[], actions: ShortcutActions): void {
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

function ShortcutList({ pages, onClose }: { pages: PageEntry[]; onClose: () => void }) {
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
