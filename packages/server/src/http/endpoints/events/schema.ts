import { Type } from 'typebox';
import { EngineShape } from '../admin/engines/schema.ts';
import { RequestEntryShape } from '../requests/schema.ts';

/** The data of each event, by its name. They are sent as server-sent events, `event: <name>` and `data: <JSON>`. */
export const EVENTS = {
  /** Every 2 seconds. */
  counters: Type.Object({
    time: Type.String(),
    in_flight: Type.Integer({ description: 'Requests that run now' }),
    last_minute: Type.Object({
      requests: Type.Integer(),
      errors: Type.Integer(),
      prompt_tokens: Type.Integer(),
      completion_tokens: Type.Integer(),
      cost_usd: Type.Number(),
    }),
  }),
  /** At most once a second, the newest 50 requests that ended since the last one, newest first. */
  requests: Type.Object({ data: Type.Array(RequestEntryShape) }),
  /** When a batch changes; at first, every batch that has not ended. */
  batch: Type.Object({
    id: Type.String(),
    account_id: Type.String(),
    status: Type.String(),
    request_counts: Type.Object({ total: Type.Integer(), completed: Type.Integer(), failed: Type.Integer() }),
  }),
  /** For keys with the scope `admin`: when the state, queue or weights of a model change; at first, all. */
  engine: EngineShape,
};
