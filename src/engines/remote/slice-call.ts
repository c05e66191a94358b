import type { ApiError } from '../../errors/api-error.ts';
import type { EmbeddingInput } from '../engine.ts';
import { UpstreamFailure } from './failure/failure.ts';
import type { UpstreamCall } from './routing/upstream-call.ts';
import { type InputSlice, learnInputLimit } from './split-inputs.ts';

export interface SliceCall<T extends EmbeddingInput, R> {
  slice: InputSlice<T>;
  call: UpstreamCall;
  send: () => Promise<R>;
  /** Upstreams say that some input is too long, but not which one. Undefined: smaller calls are to show it. */
  findTooLong: (failure: UpstreamFailure) => Promise<Error | undefined>;
}

/** Sends a slice in one call. Returns undefined if its inputs are to be sent in smaller calls. */
export async function callWithSlice<T extends EmbeddingInput, R>(options: SliceCall<T, R>): Promise<R | undefined> {
  const { slice, call, send, findTooLong } = options;
  try {
    return await send();
  } catch (error) {
    if (!(error instanceof UpstreamFailure) || slice.items.length === 1) throw error;
    if (error.kind === 'too-many') {
      learnInputLimit(call.upstream, error);
      return undefined;
    }
    if (error.apiError.code !== 'context_length_exceeded') throw error;
    const named = withPositionInRequest(error.apiError, slice.start) ?? (await findTooLong(error));
    if (named !== undefined) throw named;
    return undefined;
  }
}

/** Another Baobab names the input by its position in our call. */
function withPositionInRequest(apiError: ApiError, start: number): ApiError | undefined {
  if (typeof apiError.field !== 'object' || typeof apiError.field[1] !== 'number') return undefined;
  return apiError.mapFields(([name = '', index = 0]) => [name, start + Number(index)]);
}
