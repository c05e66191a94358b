/** Knows where it stands among those that run, so that it can leave without being searched for. */
export interface Stoppable {
  place: number;
  disconnect: AbortController | undefined;
}

export interface RunningRequests {
  readonly size: number;
  add(request: Stoppable): void;
  remove(request: Stoppable): void;
  stopAll(reason: Error): void;
}

export const NOWHERE = -1;

/**
 * Requests that somebody would have to stop. Not a set: it makes its table anew every few requests, from the first collection of everything
 * on in V8's old space, and so calls for the next such collection.
 */
export function createRunningRequests(): RunningRequests {
  const requests: Stoppable[] = [];
  return {
    get size() {
      return requests.length;
    },
    add(request) {
      request.place = requests.push(request) - 1;
    },
    remove(request) {
      const { place } = request;
      if (place === NOWHERE) return;
      request.place = NOWHERE;
      const last = requests.pop();
      if (last === undefined || last === request) return;
      requests[place] = last;
      last.place = place;
    },
    stopAll(reason) {
      for (const { disconnect } of [...requests]) disconnect?.abort(reason);
    },
  };
}
