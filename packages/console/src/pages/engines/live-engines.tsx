import { useEvent } from '../../api/events.ts';
import { queryClient } from '../../api/query.ts';
import type { Engine, List } from '../../api/types.ts';

export const isSame = (one: Engine, other: Engine): boolean =>
  one.model === other.model && one.version === other.version;

/** What the list of models shows of an engine. */
const shown = (engine: Engine | undefined): string => `${engine?.status} ${engine?.weights?.status}`;

/** Writes the state of an engine into the cached list. */
export function writeEngine(engine: Engine): void {
  const list = queryClient.getQueryData<List<Engine>>(['engines']);
  const before = list?.data.find((each) => isSame(each, engine));
  if (list) {
    const data = before ? list.data.map((each) => (isSame(each, engine) ? engine : each)) : [...list.data, engine];
    queryClient.setQueryData<List<Engine>>(['engines'], { ...list, data });
  }
  // A model that is being loaded is not loaded in their list.
  if (engine.status !== 'loading' && engine.status !== 'unloading' && shown(engine) !== shown(before))
    void queryClient.invalidateQueries({ queryKey: ['models'] });
}

/** Keeps the cached list of engines as new as the events. */
export function LiveEngines() {
  useEvent('engine', writeEngine);
  return null;
}
