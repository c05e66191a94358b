import { Parser, type ReadEntry } from 'tar';

export type TarEvent =
  | { type: 'start'; path: string; bytes: number }
  | { type: 'data'; path: string; data: Buffer }
  | { type: 'end'; path: string };

/**
 * The wanted regular files of a tar stream, in the order they come; everything else is skipped unread. Nothing is written
 * anywhere, so links, modes and odd names in the archive have no effect. Ends as soon as all were seen.
 */
export async function* tarEntries(
  archive: AsyncIterable<Uint8Array>,
  wanted: ReadonlySet<string>,
): AsyncGenerator<TarEvent> {
  const events: TarEvent[] = [];
  const left = new Set(wanted);
  let failure: Error | null = null;
  const parser = new Parser({
    filter: (path, entry) => left.has(path) && isRegularFile(entry),
    onReadEntry: (entry) => {
      const { path } = entry;
      // The same path again later in the archive is not taken.
      left.delete(path);
      events.push({ type: 'start', path, bytes: entry.size });
      entry.on('data', (data) => events.push({ type: 'data', path, data }));
      entry.on('end', () => events.push({ type: 'end', path }));
    },
  });
  parser.on('error', (error: Error) => {
    failure = error;
  });

  let open = 0;
  function* drain(): Generator<TarEvent> {
    for (const event of events.splice(0)) {
      if (event.type === 'start') open += 1;
      if (event.type === 'end') open -= 1;
      yield event;
    }
    if (failure !== null) throw failure;
  }

  for await (const chunk of archive) {
    // Entries flow, so all that this chunk holds has become events when write returns: memory stays at one chunk.
    parser.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    yield* drain();
    if (left.size === 0 && open === 0) return;
  }
  parser.end();
  yield* drain();
}

const isRegularFile = (entry: unknown): boolean => {
  const { type } = entry as ReadEntry;
  return type === 'File' || type === 'OldFile';
};
