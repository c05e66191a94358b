import type { BatchEndpoint } from '../../domain/batch.ts';
import type { InferenceCall } from '../inference.ts';

/** Runs the body of one line as the endpoint would run the body of a request. */
export interface LineExecutor {
  /** The JSON of the answer; throws what the endpoint would throw. */
  execute(endpoint: BatchEndpoint, body: unknown, call: InferenceCall): Promise<Uint8Array>;
}
