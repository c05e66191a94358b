import { isOperator } from '@baobab/core/domain/operations.ts';
import { useState } from 'preact/hooks';
import { keptSearch } from '../address/range.ts';
import { changeSearch, href, usePlace } from '../address/router.ts';
import { useAccount, useAccounts, useHealth } from '../api/queries.ts';
import { ALL_ACCOUNTS, signOut, useAccountFilter, useSession } from '../api/session.ts';
import { toastFailure } from '../components/feedback.tsx';
import { Finder } from '../components/finder.tsx';
import { Icon, type IconName, Mark } from '../components/icon.tsx';
import { hasKeyboard, paletteKeys } from '../components/keyboard.ts';
import { useSettled } from '../components/settled.ts';
import { applyTheme, type Theme, useTheme } from '../components/theme.ts';
import { texts } from '../texts/en/texts.ts';
import { isForOperators, type PageEntry } from './pages.ts';

const NEXT_THEME: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' };

export interface RailProps {
  pages: PageEntry[];
  narrow: boolean;
  connected: boolean;
  onFind: () => void;
  onSignedOut: () => void;
  onToggle?: (() => void) | undefined;
}

export function Rail({ pages, narrow, connected, onFind, onSignedOut, onToggle }: RailProps) {
  const { path, search } = usePlace();
  const { theme } = useTheme();
  const link = ({ path: target, title, icon }: PageEntry) => (
    <a
      key={target}
      class="rail-link"
      href={href(target, keptSearch(search))}
      aria-current={target === path ? 'page' : undefined}
      title={narrow ? title : undefined}
    >
      <Icon name={icon} />
      <span class="rail-label">{title}</span>
    </a>
  );
  const leave = () => signOut().then(onSignedOut).catch(toastFailure);
  const operators = pages.filter(isForOperators);
  return (
    <div class="rail">
      <a class="brand" href={href('/')}>
        <Mark />
        <span class="rail-label">{texts.product}</span>
      </a>
      {!narrow && <AccountSwitcher />}
      <RailButton
        narrow={narrow}
        icon="search"
        label={texts.nav.find}
        hint={hasKeyboard() ? paletteKeys() : undefined}
        onClick={onFind}
      />
      <nav aria-label={texts.nav.main}>
        {pages.filter((page) => !isForOperators(page)).map(link)}
        {operators.length > 0 && (
          <>
            <div class="rail-line" />
            {operators.map(link)}
          </>
        )}
      </nav>
      <div class="rail-foot">
        <a class="rail-link" href="/docs">
          <Icon name="reference" />
          <span class="rail-label">{texts.nav.reference}</span>
        </a>
        <RailButton
          narrow={narrow}
          icon="theme"
          label={texts.nav.themes[theme]}
          onClick={() => applyTheme(NEXT_THEME[theme])}
        />
        {onToggle && (
          <RailButton
            narrow={narrow}
            icon="panel"
            label={narrow ? texts.nav.expand : texts.nav.collapse}
            onClick={onToggle}
          />
        )}
        <RailButton narrow={narrow} icon="out" label={texts.nav.signOut} onClick={leave} />
        <Health connected={connected} />
      </div>
    </div>
  );
}

interface RailButtonProps {
  icon: IconName;
  label: string;
  hint?: string | undefined;
  /** Only the icon is visible. */
  narrow: boolean;
  onClick: () => void;
}

function RailButton({ icon, label, hint, narrow, onClick }: RailButtonProps) {
  return (
    <button type="button" class="rail-link" aria-label={narrow ? label : undefined} title={label} onClick={onClick}>
      <Icon name={icon} />
      <span class="rail-label">{label}</span>
      {hint && <kbd>{hint}</kbd>}
    </button>
  );
}

function AccountSwitcher() {
  const session = useSession();
  const account = useAccountFilter();
  const chosen = useAccount(account);
  const [open, setOpen] = useState(false);
  if (!isOperator(session)) {
    return (
      <div class="switcher switcher-name truncate" title={session.account.id}>
        <span class="muted">{texts.nav.account}</span> <span class="strong">{session.account.name}</span>
      </div>
    );
  }
  return (
    <div class="switcher">
      <button type="button" class="select" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        <span class="hidden-visually">{texts.nav.account}: </span>
        <span class="truncate" dir="auto">
          {account === ALL_ACCOUNTS ? texts.nav.allAccounts : (chosen?.name ?? account)}
        </span>
      </button>
      {open && <AccountFinder onClose={() => setOpen(false)} />}
    </div>
  );
}

function AccountFinder({ onClose }: { onClose: () => void }) {
  const [query, setQuery] = useState('');
  const accounts = useAccounts(useSettled(query.trim()));
  const found = (accounts.data?.data ?? []).filter(({ status }) => status !== 'deleted');
  const all = { id: ALL_ACCOUNTS, group: '', icon: 'accounts' as const, label: texts.nav.allAccounts };
  return (
    <Finder
      label={texts.nav.account}
      placeholder={texts.nav.findAccount}
      entries={[...(query.trim() === '' ? [all] : []), ...found.map(({ id, name }) => ({ ...all, id, label: name }))]}
      query={query}
      onQuery={setQuery}
      onChoose={({ id }) => changeSearch({ account: id === ALL_ACCOUNTS ? undefined : id })}
      onClose={onClose}
    />
  );
}

function Health({ connected }: { connected: boolean }) {
  const session = useSession();
  const health = useHealth();
  const ok = connected && !health.isError;
  const text = !connected ? texts.nav.unknown : health.isError ? texts.nav.unhealthy : texts.nav.healthy;
  return (
    <div class="health" title={`${text}, ${session.version}`}>
      <span class={`dot ${ok ? 'dot-good' : connected ? 'dot-bad' : 'dot-warn'}`} />
      <span class="rail-label">
        {text} · {session.version}
      </span>
    </div>
  );
}
