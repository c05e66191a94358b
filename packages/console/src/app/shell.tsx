import { may } from '@baobab/core/domain/operations.ts';
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { href, navigate, usePlace } from '../address/router.ts';
import { closeEvents, openEvents, useConnected } from '../api/events.ts';
import { useAccountFilter, useSession } from '../api/session.ts';
import { Button, LinkButton } from '../components/button.tsx';
import { Empty, Failure } from '../components/feedback.tsx';
import { Icon, Mark } from '../components/icon.tsx';
import { Dialog } from '../components/overlay.tsx';
import { Skeleton } from '../components/page.tsx';
import { texts } from '../texts/en/texts.ts';
import { type PageEntry, pagesFor } from './pages.ts';
import { Palette } from './palette.tsx';
import { Rail } from './rail.tsx';
import { ShortcutList, useShortcuts } from './shortcuts.tsx';

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
