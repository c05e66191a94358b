import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { createTimeSlice, type TimeSlice } from '@baobab/core/runtime/time-slices.ts';

/** Native code blocks the event loop, and with it the heartbeat, while it tokenizes. */
const SLICE_MS = 10;

export const createTokenizerSlice = (signal: AbortSignal): TimeSlice =>
  createTimeSlice({ sliceMs: SLICE_MS, signal, toError: cancellation });
