import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import { queryClient } from '../../api/query.ts';
import type { Engine } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { toast, toastFailure } from '../../components/feedback.tsx';
import { texts } from '../../texts/en/texts.ts';

type Action = 'pull' | 'load' | 'unload';

/** What an operator can do with a model now. Unloading can be undone by loading again, so it does not ask. */
export function EngineActions({ engine, small = false }: { engine: Engine; small?: boolean }) {
  const [busy, setBusy] = useState(false);
  const run = async (action: Action) => {
    setBusy(true);
    try {
      const body = { model: `${engine.model}@${engine.version}` };
      await call(`/v1/admin/models/${action}`, { method: 'POST', body });
      await queryClient.invalidateQueries({ queryKey: ['engines'] });
      toast(
        texts.engines.done[action](engine.model),
        action === 'unload' ? { action: { label: texts.common.undo, run: () => void run('load') } } : {},
      );
    } catch (error) {
      toastFailure(error);
    }
    setBusy(false);
  };
  const size = small ? ('small' as const) : ('normal' as const);
  if (engine.weights === null) return null;
  const absent = engine.weights.status === 'absent' || engine.weights.status === 'unreachable';
  const loaded = engine.status === 'ready';
  return (
    <div class="row">
      {absent && (
        <Button size={size} icon="download" disabled={busy} onClick={() => void run('pull')}>
          {texts.engines.pull}
        </Button>
      )}
      {!loaded && engine.status !== 'loading' && engine.weights.status === 'present' && (
        <Button size={size} icon="playground" disabled={busy} onClick={() => void run('load')}>
          {texts.engines.load}
        </Button>
      )}
      {loaded && (
        <Button size={size} icon="stop" disabled={busy} onClick={() => void run('unload')}>
          {texts.engines.unload}
        </Button>
      )}
    </div>
  );
}
