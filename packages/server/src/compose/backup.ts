import { systemClock } from '@baobab/core/runtime/clock.ts';
import { type BackupSummary, createBackup, restoreBackup } from '../adapters/backup.ts';
import type { ResolvedConfig } from '../config/load.ts';

export { BackupError, type BackupSummary } from '../adapters/backup.ts';

type OnFile = (copied: number, bytes: number) => void;

export const backUp = ({ dataDir }: ResolvedConfig, folder: string, onFile: OnFile): Promise<BackupSummary> =>
  createBackup({ dataDir, folder, now: systemClock.now(), onFile });

export const restore = ({ dataDir }: ResolvedConfig, folder: string, onFile: OnFile): Promise<BackupSummary> =>
  restoreBackup({ dataDir, folder, onFile });
