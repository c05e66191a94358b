import { useEffect, useRef, useState } from 'preact/hooks';
import { address, call } from './client.ts';
import type { Batch, Counters, Engine, RequestEntry } from './types.ts';

export interface Events {
  counters: Counters;
  requests: { data: RequestEntry[] };
  batch: Pick<Batch, 'id' | 'status' | 'request_counts'> & { account_id: string };
  engine: Engine;
}

type Name = keyof Events;
type Listener = (data: never) => void;

const NAMES: readonly Name[] = ['counters', 'requests', 'batch', 'engine'];
const RECONNECT_MS = 2_000;
const listeners = new Map<Name, Set<Listener>>(NAMES.map((name) => [name, new Set()]));
/** The last data of each kind, for parts that are drawn between two events. */
const last = new Map<Name, unknown>();
const watchers = new Set<(connected: boolean) => void>();

let source: EventSource | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

function announce(connected: boolean): void {
  for (const watcher of watchers) watcher(connected);
}

/** One stream for the whole console, open while someone is signed in. */
export function openEvents(account: string | undefined): void {
  if (source !== undefined) return;
  const stream = new EventSource(address('/v1/events', { account }));
  source = stream;
  stream.onopen = () => announce(true);
  for (const name of NAMES) {
    stream.addEventListener(name, (event: MessageEvent<string>) => {
      const data = JSON.parse(event.data) as never;
      last.set(name, data);
      for (const listener of listeners.get(name) ?? []) listener(data);
    });
  }
  stream.onerror = () => {
    // A refused stream says no more than this. A normal request tells whether the session has ended.
    call('/v1/sessions/current')
      .then(() => announce(true))
      .catch(() => announce(false));
    if (stream.readyState !== EventSource.CLOSED) return;
    source = undefined;
    clearTimeout(timer);
    timer = setTimeout(() => openEvents(account), RECONNECT_MS);
  };
}

export function closeEvents(): void {
  clearTimeout(timer);
  source?.close();
  source = undefined;
  last.clear();
}

export function useEvent<N extends Name>(name: N, listener: (data: Events[N]) => void): void {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => {
    const each = ((data: Events[N]) => latest.current(data)) as Listener;
    listeners.get(name)?.add(each);
    return () => {
      listeners.get(name)?.delete(each);
    };
  }, [name]);
}

export function useLastEvent<N extends Name>(name: N): Events[N] | undefined {
  const [data, setData] = useState(last.get(name) as Events[N] | undefined);
  useEvent(name, setData);
  return data;
}

export function useConnected(): boolean {
  const [connected, setConnected] = useState(true);
  useEffect(() => {
    watchers.add(setConnected);
    return () => {
      watchers.delete(setConnected);
    };
  }, []);
  return connected;
}
