/**
 * Waits for the work until the signal fires. After that it throws `toError(signal)`, also when the work rejects because of
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
