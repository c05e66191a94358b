/** An entry of the list; it knows its index, so that removing it needs no search. */
export interface Stoppable {
  index: number;
  disconnect: AbortController | undefined;
}

export interface RunningRequests {
  readonly size: number;
  count(isCounted: (request: Stoppable) => boolean): number;
  add(request: Stoppable): void;
  remove(request: Stoppable): void;
  stopAll(reason: Error): void;
}

export const NOT_LISTED = -1;

/**
 * The requests that a shutdown may have to stop. Not a Set: it reallocates its table every few requests, in old space once it is old, and
 * so causes full collections.
 */
export function createRunningRequests(): RunningRequests {
  const requests: Stoppable[] = [];
  return {
    get size() {
      return requests.length;
    },
    count: (isCounted) => requests.filter(isCounted).length,
    add(request) {
      request.index = requests.push(request) - 1;
    },
    remove(request) {
      const { index } = request;
      if (index === NOT_LISTED) return;
      request.index = NOT_LISTED;
      const last = requests.pop();
      if (last === undefined || last === request) return;
      requests[index] = last;
      last.index = index;
    },
    stopAll(reason) {
      for (const { disconnect } of [...requests]) disconnect?.abort(reason);
    },
  };
}
