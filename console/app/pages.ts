import type { ComponentType } from 'preact';
import type { Session } from '../api/types.ts';
import type { IconName } from '../components/icon.tsx';
import { texts } from '../texts/en.ts';
import { may } from './session.ts';

export interface PageEntry {
  path: string;
  title: string;
  icon: IconName;
  /** After `g`, goes to the page. */
  letter: string;
  /** Scope that the page needs. */
  scope?: string;
  operators?: boolean;
  load: () => Promise<{ default: ComponentType }>;
}

/** Every page. Each is a script of its own that is loaded on the first visit. */
export const PAGES: readonly PageEntry[] = [
  {
    path: '/',
    title: texts.nav.overview,
    icon: 'overview',
    letter: 'o',
    scope: 'usage',
    load: () => import('../pages/overview/overview.tsx'),
  },
  {
    path: '/usage',
    title: texts.nav.usage,
    icon: 'usage',
    letter: 'u',
    scope: 'usage',
    load: () => import('../pages/usage/usage.tsx'),
  },
  {
    path: '/requests',
    title: texts.nav.requests,
    icon: 'requests',
    letter: 'r',
    scope: 'usage',
    load: () => import('../pages/requests/requests.tsx'),
  },
  {
    path: '/models',
    title: texts.nav.models,
    icon: 'models',
    letter: 'm',
    scope: 'models',
    load: () => import('../pages/models/models.tsx'),
  },
  {
    path: '/playground',
    title: texts.nav.playground,
    icon: 'playground',
    letter: 'p',
    scope: 'models',
    load: () => import('../pages/playground/playground.tsx'),
  },
  { path: '/keys', title: texts.nav.keys, icon: 'keys', letter: 'k', load: () => import('../pages/keys/keys.tsx') },
  {
    path: '/files',
    title: texts.nav.files,
    icon: 'files',
    letter: 'f',
    scope: 'files',
    load: () => import('../pages/files/files.tsx'),
  },
  {
    path: '/batches',
    title: texts.nav.batches,
    icon: 'batches',
    letter: 'b',
    scope: 'batches',
    load: () => import('../pages/batches/batches.tsx'),
  },
  {
    path: '/audit',
    title: texts.nav.audit,
    icon: 'audit',
    letter: 'l',
    scope: 'keys',
    load: () => import('../pages/audit/audit.tsx'),
  },
  {
    path: '/accounts',
    title: texts.nav.accounts,
    icon: 'accounts',
    letter: 'a',
    operators: true,
    load: () => import('../pages/accounts/accounts.tsx'),
  },
  {
    path: '/engines',
    title: texts.nav.engines,
    icon: 'engines',
    letter: 'e',
    operators: true,
    load: () => import('../pages/engines/engines.tsx'),
  },
  {
    path: '/system',
    title: texts.nav.system,
    icon: 'system',
    letter: 's',
    operators: true,
    load: () => import('../pages/system/system.tsx'),
  },
];

export function pagesFor(session: Session): PageEntry[] {
  return PAGES.filter(
    ({ operators, scope }) => (!operators || may(session, 'admin')) && (scope === undefined || may(session, scope)),
  );
}
