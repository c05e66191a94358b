import { describe, expect, it } from 'vitest';
import { createRunningRequests, NOT_LISTED, type Stoppable } from './running-requests.ts';

const request = (): Stoppable => ({ index: NOT_LISTED, disconnect: new AbortController() });
const isStopped = ({ disconnect }: Stoppable): boolean => disconnect?.signal.aborted === true;

describe('running requests', () => {
  it('stops the requests that are still running', () => {
    const running = createRunningRequests();
    const requests = Array.from({ length: 7 }, request);
    for (const each of requests) running.add(each);
    const gone = [3, 0, 6, 3].map((index) => requests[index] as Stoppable);
    for (const each of gone) running.remove(each);
    expect(running.size).toBe(4);
    running.stopAll(new Error('closing'));
    expect(requests.filter((each) => !isStopped(each))).toEqual(requests.filter((each) => gone.includes(each)));
    for (const each of requests) running.remove(each);
    expect(running.size).toBe(0);
  });

  it('ignores a request that was never added', () => {
    const running = createRunningRequests();
    const one = request();
    running.add(one);
    running.remove(request());
    expect(running.size).toBe(1);
  });

  it('lets requests be removed while it stops them', () => {
    const running = createRunningRequests();
    const requests = Array.from({ length: 4 }, request);
    for (const each of requests) {
      running.add(each);
      each.disconnect?.signal.addEventListener('abort', () => running.remove(each));
    }
    running.stopAll(new Error('closing'));
    expect(requests.every(isStopped)).toBe(true);
    expect(running.size).toBe(0);
  });
});
