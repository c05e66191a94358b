import { useEvent } from '../../api/events.ts';
import type { Engine, List } from '../../api/types.ts';
import { queryClient } from '../../app/query.ts';

/** Writes the state of engines into the cached list as events bring it. */
export function LiveEngines() {
  useEvent('engine', (engine) => {
    queryClient.setQueryData<List<Engine>>(['engines'], (list) => {
      if (!list) return list;
      const same = (each: Engine) => each.model === engine.model && each.version === engine.version;
      if (!list.data.some(same)) return { ...list, data: [...list.data, engine] };
      return { ...list, data: list.data.map((each) => (same(each) ? engine : each)) };
    });
    const settled = engine.status === 'ready' || engine.status === 'cold';
    if (settled) void queryClient.invalidateQueries({ queryKey: ['models'] });
  });
  return null;
}
