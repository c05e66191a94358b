import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import { queryClient } from '../../api/query.ts';
import type { Engine, List } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { toast, toastFailure } from '../../components/feedback.tsx';
import { Modal } from '../../components/overlay.tsx';
import { texts } from '../../texts/en/texts.ts';
import { engineName } from './engine-facts.tsx';
import { isSame, writeEngine } from './live-engines.tsx';

type Action = 'pull' | 'load' | 'unload';

const { engines } = texts;

/** Says how a fetch, a load or an unload that was started has ended. */
function report(action: Action, engine: Engine): boolean {
  const { status, weights, reason } = engine;
  const name = engineName(engine);
  const isRunning = {
    pull: weights?.status === 'pulling',
    load: status !== 'ready' && status !== 'unavailable',
    unload: status === 'unloading',
  }[action];
  if (isRunning) return false;
  const failed = action === 'pull' ? weights?.status !== 'present' : action === 'load' && status === 'unavailable';
  if (failed) toast(engines.failed[action](name, weights?.reason ?? reason ?? engines.seeLog), { bad: true });
  else toast(engines.done[action](name));
  return true;
}

/** Reports the end as soon as the list of engines, which events keep up to date, has it. */
function reportEnd(action: Action, engine: Engine): void {
  const stop = queryClient.getQueryCache().subscribe((event) => {
    // All other events come with the list as it was.
    const isNew = event.type === 'updated' && event.action.type === 'success';
    if (!isNew || event.query.queryKey[0] !== 'engines') return;
    const now = (event.query.state.data as List<Engine> | undefined)?.data.find((each) => isSame(each, engine));
    if (now !== undefined && report(action, now)) stop();
  });
}

/** What an operator can do with a model now. */
export function EngineActions({ engine, small = false }: { engine: Engine; small?: boolean }) {
  const [busy, setBusy] = useState(false);
  const [asking, setAsking] = useState(false);
  const run = async (action: Action) => {
    setBusy(true);
    setAsking(false);
    try {
      const body = { model: engineName(engine) };
      const begun = await call<Engine>(`/v1/admin/models/${action}`, { method: 'POST', body });
      // A list that is on its way may be older.
      await queryClient.cancelQueries({ queryKey: ['engines'] });
      writeEngine(begun);
      // A fetch that has not begun yet looks like one that has failed.
      if (begun.weights?.status === 'absent' || !report(action, begun)) {
        toast(engines.begun[action](engineName(engine), begun.in_flight));
        reportEnd(action, begun);
      }
      await queryClient.invalidateQueries({ queryKey: ['engines'] });
    } catch (error) {
      toastFailure(error);
    }
    setBusy(false);
  };
  const size = small ? ('small' as const) : ('normal' as const);
  if (engine.weights === null) return null;
  const absent = engine.weights.status === 'absent' || engine.weights.status === 'unreachable';
  // A model that an upstream serves is ready without a process here.
  const isLoaded = engine.processes > 0;
  const isChanging = engine.status === 'loading' || engine.status === 'unloading';
  return (
    <div class="row">
      {absent && (
        <Button size={size} icon="download" disabled={busy} onClick={() => void run('pull')}>
          {engine.weights.status === 'unreachable' ? engines.pullAgain : engines.pull}
        </Button>
      )}
      {!isLoaded && !isChanging && engine.weights.status === 'present' && (
        <Button size={size} icon="playground" disabled={busy} onClick={() => void run('load')}>
          {engines.load}
        </Button>
      )}
      {isLoaded && !isChanging && (
        <Button
          size={size}
          icon="stop"
          disabled={busy}
          onClick={() => (engine.in_flight > 0 ? setAsking(true) : void run('unload'))}
        >
          {engines.unload}
        </Button>
      )}
      {asking && (
        <Modal
          title={engines.unloadTitle(engineName(engine))}
          onClose={() => setAsking(false)}
          foot={
            <>
              <Button onClick={() => setAsking(false)}>{texts.common.cancel}</Button>
              <Button tone="danger-filled" onClick={() => void run('unload')}>
                {engines.unload}
              </Button>
            </>
          }
        >
          <p>{engines.unloadText(engine.in_flight)}</p>
        </Modal>
      )}
    </div>
  );
}
