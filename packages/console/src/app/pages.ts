import { may, OPERATIONS, type Operation } from '@baobab/core/domain/operations.ts';
import type { ComponentType } from 'preact';
import type { Session } from '../api/types.ts';
import type { IconName } from '../components/icon.tsx';
import { texts } from '../texts/en/texts.ts';

export interface PageEntry {
  path: string;
  title: string;
  icon: IconName;
  /** After `g`, goes to the page. */
  letter: string;
  /** What a key must be allowed for the page to be of use. Undefined: every key sees it. */
  operation?: Operation;
  load: () => Promise<{ default: ComponentType }>;
}

/** Every page. Each is a script of its own that is loaded on the first visit. */
export const PAGES: readonly PageEntry[] = [
  {
    path: '/',
    title: texts.nav.overview,
    icon: 'overview',
    letter: 'o',
    operation: 'reports.usage',
    load: () => import('../pages/overview/overview.tsx'),
  },
  {
    path: '/usage',
    title: texts.nav.usage,
    icon: 'usage',
    letter: 'u',
    operation: 'reports.usage',
    load: () => import('../pages/usage/usage.tsx'),
  },
  {
    path: '/requests',
    title: texts.nav.requests,
    icon: 'requests',
    letter: 'r',
    operation: 'requests.list',
    load: () => import('../pages/requests/requests.tsx'),
  },
  {
    path: '/models',
    title: texts.nav.models,
    icon: 'models',
    letter: 'm',
    operation: 'models.list',
    load: () => import('../pages/models/models.tsx'),
  },
  {
    path: '/playground',
    title: texts.nav.playground,
    icon: 'playground',
    letter: 'p',
    operation: 'models.list',
    load: () => import('../pages/playground/playground.tsx'),
  },
  { path: '/keys', title: texts.nav.keys, icon: 'keys', letter: 'k', load: () => import('../pages/keys/keys.tsx') },
  {
    path: '/files',
    title: texts.nav.files,
    icon: 'files',
    letter: 'f',
    operation: 'files.list',
    load: () => import('../pages/files/files.tsx'),
  },
  {
    path: '/batches',
    title: texts.nav.batches,
    icon: 'batches',
    letter: 'b',
    operation: 'batches.list',
    load: () => import('../pages/batches/batches.tsx'),
  },
  {
    path: '/audit',
    title: texts.nav.audit,
    icon: 'audit',
    letter: 'l',
    operation: 'audit.list',
    load: () => import('../pages/audit/audit.tsx'),
  },
  {
    path: '/accounts',
    title: texts.nav.accounts,
    icon: 'accounts',
    letter: 'a',
    operation: 'admin.accounts.list',
    load: () => import('../pages/accounts/accounts.tsx'),
  },
  {
    path: '/engines',
    title: texts.nav.engines,
    icon: 'engines',
    letter: 'e',
    operation: 'admin.engines.list',
    load: () => import('../pages/engines/engines.tsx'),
  },
  {
    path: '/system',
    title: texts.nav.system,
    icon: 'system',
    letter: 's',
    operation: 'admin.system.get',
    load: () => import('../pages/system/system.tsx'),
  },
];

export const isForOperators = ({ operation }: PageEntry): boolean =>
  operation !== undefined && OPERATIONS[operation] === 'admin';

export const pagesFor = (session: Session): PageEntry[] =>
  PAGES.filter(({ operation }) => operation === undefined || may(session, operation));
