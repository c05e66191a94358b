import { useEffect, useId, useState } from 'preact/hooks';
import { texts } from '../texts/en/texts.ts';
import { Icon, type IconName } from './icon.tsx';
import { Dialog } from './overlay.tsx';

export interface FinderEntry {
  id: string;
  /** Entries of one group follow each other under its name. */
  group: string;
  icon: IconName;
  label: string;
}

export interface FinderProps<Entry extends FinderEntry> {
  label: string;
  placeholder: string;
  /** Those that match the query, in order. */
  entries: readonly Entry[];
  query: string;
  onQuery: (query: string) => void;
  onChoose: (entry: Entry) => void;
  onClose: () => void;
}

/** A dialog in which one types to choose one of many. */
export function Finder<Entry extends FinderEntry>(props: FinderProps<Entry>) {
  const { label, placeholder, entries, query, onQuery, onChoose, onClose } = props;
  const [index, setIndex] = useState(0);
  const id = useId();
  const current = Math.min(index, entries.length - 1);

  useEffect(() => {
    document.getElementById(`${id}-${current}`)?.scrollIntoView({ block: 'nearest' });
  }, [current, id]);

  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    onChoose(entry);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setIndex((current + 1) % Math.max(1, entries.length));
    else if (event.key === 'ArrowUp') setIndex((current - 1 + entries.length) % Math.max(1, entries.length));
    else if (event.key === 'Enter') choose(entries[current]);
    else return;
    event.preventDefault();
  };

  return (
    <Dialog class="palette" label={label} onClose={onClose}>
      <input
        class="palette-input"
        role="combobox"
        aria-label={placeholder}
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={entries.length > 0 ? `${id}-${current}` : undefined}
        placeholder={placeholder}
        value={query}
        onInput={(event) => {
          onQuery(event.currentTarget.value);
          setIndex(0);
        }}
        onKeyDown={onKey}
      />
      <div class="palette-list" role="listbox" id={id} aria-label={label}>
        {entries.map((entry, position) => (
          <div key={entry.id}>
            {entries[position - 1]?.group !== entry.group && entry.group !== '' && (
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
