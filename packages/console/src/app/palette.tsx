import { may } from '@baobab/core/domain/operations.ts';
import { useMemo, useState } from 'preact/hooks';
import { keptSearch } from '../address/range.ts';
import { href, navigate, usePlace } from '../address/router.ts';
import { useAccounts, useKeys, useModels } from '../api/queries.ts';
import { useSession } from '../api/session.ts';
import { Finder, type FinderEntry } from '../components/finder.tsx';
import type { IconName } from '../components/icon.tsx';
import { useSettled } from '../components/settled.ts';
import { texts } from '../texts/en/texts.ts';
import type { PageEntry } from './pages.ts';

interface Entry extends FinderEntry {
  to: string;
}

const MOST_PER_GROUP = 8;

function useEntries(pages: PageEntry[], query: string): Entry[] {
  const session = useSession();
  const models = useModels();
  const searched = useSettled(query);
  const keys = useKeys(searched);
  const accounts = useAccounts(searched);
  const { search } = usePlace();
  return useMemo(() => {
    const kept = keptSearch(search);
    const { palette } = texts;
    const entries: Entry[] = pages.map(({ path, title, icon }) => ({
      id: `page ${path}`,
      group: palette.pages,
      icon,
      label: title,
      to: href(path, kept),
    }));
    const action = (icon: IconName, label: string, to: string) =>
      entries.push({ id: `action ${label}`, group: palette.actions, icon, label, to });
    if (may(session, 'keys.create')) action('plus', palette.newKey, href('/keys', { ...kept, new: 'key' }));
    if (may(session, 'batches.create')) action('plus', palette.newBatch, href('/batches', { ...kept, new: 'batch' }));
    if (may(session, 'files.create')) action('upload', palette.upload, href('/files', kept));
    if (query.startsWith('req_')) {
      entries.push({
        id: query,
        group: palette.requests,
        icon: 'requests',
        label: palette.openRequest(query),
        to: href('/requests', { ...kept, request: query }),
      });
    }
    for (const { id } of models.data?.data ?? []) {
      entries.push({
        id: `model ${id}`,
        group: palette.models,
        icon: 'models',
        label: id,
        to: href('/models', { ...kept, model: id }),
      });
      action('playground', palette.tryModel(id), href('/playground', { ...kept, model: id }));
    }
    for (const { id, name, prefix } of keys.data?.data ?? []) {
      const to = href('/keys', { ...kept, key: id, show: 'all' });
      entries.push({ id, group: palette.keys, icon: 'keys', label: `${name} ${prefix}…`, to });
    }
    for (const { id, name } of accounts.data?.data ?? []) {
      const to = href('/accounts', { ...kept, open: id });
      entries.push({ id, group: palette.accounts, icon: 'accounts', label: name, to });
    }
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const counts = new Map<string, number>();
    return entries
      .filter(({ label, group }) => {
        const text = label.toLowerCase();
        // The server has searched these, also for ids.
        const isFound = group === palette.keys || group === palette.accounts;
        if (!isFound && !words.every((word) => text.includes(word))) return false;
        const count = (counts.get(group) ?? 0) + 1;
        counts.set(group, count);
        return count <= (group === palette.pages ? pages.length : MOST_PER_GROUP);
      })
      .toSorted((left, right) => groupRank(left.group) - groupRank(right.group));
  }, [pages, query, session, models.data, keys.data, accounts.data, search]);
}

const GROUPS = [
  texts.palette.requests,
  texts.palette.pages,
  texts.palette.models,
  texts.palette.keys,
  texts.palette.accounts,
  texts.palette.actions,
];
const groupRank = (group: string) => GROUPS.indexOf(group);

export function Palette({ pages, onClose }: { pages: PageEntry[]; onClose: () => void }) {
  const [query, setQuery] = useState('');
  const entries = useEntries(pages, query.trim());
  return (
    <Finder
      label={texts.palette.label}
      placeholder={texts.palette.placeholder}
      entries={entries}
      query={query}
      onQuery={setQuery}
      onChoose={({ to }) => navigate(to)}
      onClose={onClose}
    />
  );
}
