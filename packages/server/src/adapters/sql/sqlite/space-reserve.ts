import { randomBytes } from 'node:crypto';
import { rmSync, statSync, writeFileSync } from 'node:fs';

/** Space on the disk that is set aside for urgent writes, such as revoking a key when the disk is full. */
export interface SpaceReserve {
  /** Sets the space aside, or as much of it as there is room for. */
  fill(): void;
  /** Gives the space free. False when there was none. */
  release(): boolean;
}

/** Less is of no use. */
const SMALLEST_BYTES = 65_536;

/** A file beside the database; 0 bytes: no reserve. */
export function createSpaceReserve(databasePath: string, bytes: number): SpaceReserve {
  const path = `${databasePath}-reserve`;
  const size = () => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  return {
    fill() {
      if (size() >= bytes) return;
      for (let wanted = bytes; wanted >= SMALLEST_BYTES; wanted /= 2) {
        try {
          // Random bytes: a file system that compresses would not set anything aside for zeros.
          writeFileSync(path, randomBytes(wanted), { mode: 0o600 });
          return;
        } catch {
          rmSync(path, { force: true });
        }
      }
    },
    release() {
      const hadSpace = size() > 0;
      rmSync(path, { force: true });
      return hadSpace;
    },
  };
}
