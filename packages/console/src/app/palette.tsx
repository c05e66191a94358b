import { may } from '@baobab/core/domain/operations.ts';
import { useEffect, useId, useMemo, useState } from 'preact/hooks';
import { keptSearch } from '../address/range.ts';
import { href, navigate, usePlace } from '../address/router.ts';
import { useKeys, useModels } from '../api/queries.ts';
import { useSession } from '../api/session.ts';
import { Icon, type IconName } from '../components/icon.tsx';
import { Dialog } from '../components/overlay.tsx';
import { texts } from '../texts/en/texts.ts';
import type { PageEntry } from './pages.ts';

interface Entry {
  id: string;
  group: string;
  icon: IconName;
  label: string;
  to: string;
}

const MOST_PER_GROUP = 8;

function useEntries(pages: PageEntry[], query: string): Entry[] {
  const session = useSession();
  const models = useModels();
  const keys = useKeys();
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
    if (may(session, 'batches.create')) action('plus', palette.newBatch, href('/batches', { new: 'batch' }));
    if (may(session, 'files.create')) action('upload', palette.upload, href('/files'));
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
        to: href('/models', { model: id }),
      });
      action('playground', palette.tryModel(id), href('/playground', { model: id }));
    }
    for (const { id, name, prefix } of keys.data?.data ?? []) {
      const to = href('/keys', { ...kept, key: id, show: 'all' });
      entries.push({ id, group: palette.keys, icon: 'keys', label: `${name} ${prefix}…`, to });
    }
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const counts = new Map<string, number>();
    return entries
      .filter(({ label, group }) => {
        const text = label.toLowerCase();
        if (!words.every((word) => text.includes(word))) return false;
        const count = (counts.get(group) ?? 0) + 1;
        counts.set(group, count);
        return count <= (group === palette.pages ? pages.length : MOST_PER_GROUP);
      })
      .toSorted((left, right) => groupRank(left.group) - groupRank(right.group));
  }, [pages, query, session, models.data, keys.data, search]);
}

const GROUPS = [
  texts.palette.requests,
  texts.palette.pages,
  texts.palette.models,
  texts.palette.keys,
  texts.palette.actions,
];
const groupRank = (group: string) => GROUPS.indexOf(group);

export function Palette({ pages, onClose }: { pages: PageEntry[]; onClose: () => void }) {
  const [query, setQuery] = useState('');
  const [index, setIndex] = useState(0);
  const entries = useEntries(pages, query.trim());
  const id = useId();
  const current = Math.min(index, entries.length - 1);

  useEffect(() => {
    document.getElementById(`${id}-${current}`)?.scrollIntoView({ block: 'nearest' });
  }, [current, id]);

  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    navigate(entry.to);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setIndex((current + 1) % Math.max(1, entries.length));
    else if (event.key === 'ArrowUp') setIndex((current - 1 + entries.length) % Math.max(1, entries.length));
    else if (event.key === 'Enter') choose(entries[current]);
    else return;
    event.preventDefault();
  };

  return (
    <Dialog class="palette" label={texts.palette.label} onClose={onClose}>
      <input
        class="palette-input"
        role="combobox"
        aria-label={texts.palette.placeholder}
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={entries.length > 0 ? `${id}-${current}` : undefined}
        placeholder={texts.palette.placeholder}
        value={query}
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setIndex(0);
        }}
        onKeyDown={onKey}
      />
      <div class="palette-list" role="listbox" id={id} aria-label={texts.palette.label}>
        {entries.map((entry, position) => (
          <div key={entry.id}>
            {entries[position - 1]?.group !== entry.group && (
              <div class="palette-group" role="presentation">
                {entry.group}
              </div>
            )}
            <div
              id={`${id}-${position}`}
              class="palette-item"
              role="option"
              tabIndex={-1}
              aria-selected={position === current}
              onMouseMove={() => setIndex(position)}
              onClick={() => choose(entry)}
              onKeyDown={onKey}
            >
              <Icon name={entry.icon} />
              <span class="truncate">{entry.label}</span>
            </div>
          </div>
        ))}
        {entries.length === 0 && <p class="palette-empty">{texts.palette.nothing}</p>}
      </div>
    </Dialog>
  );
}
