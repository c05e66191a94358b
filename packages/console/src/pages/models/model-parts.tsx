import type { Engine, Modality, Model } from '../../api/types.ts';
import { money } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { isBroken, Status } from '../engines/engine-facts.tsx';

/** Choices of the filter. The API calls a model that is being loaded cold. */
export const MODEL_STATUSES = ['ready', 'cold', 'unavailable'];

export interface ModelState {
  model: Model;
  /** Only operators see it. Newer than the model: it changes with events. */
  engine: Engine | undefined;
}

export const statusOf = ({ model, engine }: ModelState): Engine['status'] => engine?.status ?? model.status;

/** What its status means. Operators read the reason of the engine with its facts. */
export function statusText({ model, engine }: ModelState): string {
  const status = statusOf({ model, engine });
  const reason = status === 'unavailable' && !engine?.reason ? model.status_reason : undefined;
  return reason ?? texts.models.statusHints[status] ?? '';
}

export const ModelStatus = ({ model, engine }: ModelState) => (
  <Status
    status={statusOf({ model, engine })}
    about={engine?.reason ?? statusText({ model, engine })}
    broken={engine && isBroken(engine)}
    running={engine?.in_flight}
  />
);

type Price = keyof Model['pricing'];

/** What models of a kind are charged for. */
const CHARGED: Readonly<Record<Modality, readonly Price[]>> = {
  chat: ['prompt_per_million', 'completion_per_million', 'cache_read_per_million'],
  embedding: ['prompt_per_million'],
  rerank: ['prompt_per_million'],
  audio: ['audio_per_minute'],
};

/** A cell with a price. It may also be free, or no price of such models. */
export function price(field: Price) {
  return ({ modality, pricing }: Model) => {
    const value = pricing[field] ?? 0;
    if (value > 0) return money(value);
    return CHARGED[modality].includes(field) ? texts.models.free : '–';
  };
}
