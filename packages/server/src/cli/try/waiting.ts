import { type ApiAccess, callApi, type ListedModel } from '../api-client.ts';
import { type Terminal, writeDim } from '../terminal.ts';

const SHOW_AFTER_MS = 300;
const EVERY_MS = 500;
const CLEAR_LINE = '\r\u001b[2K';

interface EngineState {
  model: string;
  status: string;
  weights: { status: string; bytes_on_disk: number; total_bytes: number | null } | null;
}

function stateText({ status, weights }: EngineState): string | undefined {
  if (weights?.status === 'pulling') {
    const { bytes_on_disk: done, total_bytes: all } = weights;
    return all
      ? `fetching weights, ${Math.floor((100 * done) / all)} % of ${Math.ceil(all / 1e6)} MB`
      : 'fetching weights';
  }
  return status === 'ready' ? undefined : 'loading';
}

/** Says what the first word is waiting. Returns a function that clears that line. */
export function showWaiting(terminal: Terminal, access: ApiAccess, model: ListedModel): () => void {
  const beganAt = performance.now();
  let doing = model.status === 'ready' ? 'waiting' : 'loading';
  let isShown = false;
  // Only operators see engines. For other keys, use the status in the list of models.
  const ask = async () => {
    const { data } = (await (await callApi(access, 'admin/engines')).json()) as { data: EngineState[] };
    const engine = data.find((each) => each.model === model.id);
    doing = (engine && stateText(engine)) ?? 'waiting';
  };
  let mayAsk = true;
  const timer = setInterval(() => {
    const ms = performance.now() - beganAt;
    if (ms < SHOW_AFTER_MS) return;
    if (mayAsk) {
      mayAsk = false;
      ask().then(
        () => {
          mayAsk = true;
        },
        // Refused: this key is no operator's.
        () => {},
      );
    }
    isShown = true;
    terminal.output.write(CLEAR_LINE);
    writeDim(terminal, `${model.id}: ${doing}, ${Math.round(ms / 1_000)} s…`);
  }, EVERY_MS);
  return () => {
    clearInterval(timer);
    if (isShown) terminal.output.write(CLEAR_LINE);
    isShown = false;
  };
}
