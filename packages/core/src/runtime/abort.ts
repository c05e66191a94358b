/**
 * Waits for the work until the signal fires. After that it throws `toError(signal)`, even when the work rejects because of
 * the same signal. The work itself goes on unless it watches the signal too.
 */
export async function untilAborted<T>(
  work: Promise<T>,
  signal: AbortSignal,
  toError: (signal: AbortSignal) => unknown = ({ reason }) => reason,
): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(toError(signal));
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([aborted, work]);
  } catch (error) {
    throw signal.aborted ? toError(signal) : error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** A late timer counts as one step, however late it is. */
const STEPS = 10;

/**
 * Like `AbortSignal.timeout`, but does not count most of the time in which this process could not run. The timer of a busy process is due
 * together with the answer that it waits for, and would come first.
 */
export function patientTimeout(timeoutMs: number): AbortSignal {
  const stop = new AbortController();
  let stepsLeft = STEPS;
  const timer = setInterval(() => {
    stepsLeft -= 1;
    if (stepsLeft > 0) return;
    clearInterval(timer);
    stop.abort(new DOMException('There was no answer in time', 'TimeoutError'));
  }, timeoutMs / STEPS);
  timer.unref();
  return stop.signal;
}
