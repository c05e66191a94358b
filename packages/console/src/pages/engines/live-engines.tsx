import { useEvent } from '../../api/events.ts';
import { queryClient } from '../../api/query.ts';
import type { Engine, List } from '../../api/types.ts';

/** What the list of models shows of an engine. */
const shown = (engine: Engine | undefined): string => `${engine?.status} ${engine?.weights?.status}`;

/** Writes the state of engines into the cached list as events bring it. */
export function LiveEngines() {
  useEvent('engine', (engine) => {
    const list = queryClient.getQueryData<List<Engine>>(['engines']);
    const same = (each: Engine) => each.model === engine.model && each.version === engine.version;
    const before = list?.data.find(same);
    if (list) {
      const data = before ? list.data.map((each) => (same(each) ? engine : each)) : [...list.data, engine];
      queryClient.setQueryData<List<Engine>>(['engines'], { ...list, data });
    }
    // A model that is being loaded is not loaded in their list.
    if (engine.status !== 'loading' && engine.status !== 'unloading' && shown(engine) !== shown(before))
      void queryClient.invalidateQueries({ queryKey: ['models'] });
  });
  return null;
}
