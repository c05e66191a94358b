import type { FileRepository } from '@baobab/core/ports/files.ts';
import type { Quota, StoredAmount } from '@baobab/core/ports/quotas.ts';

/** An upload that is being received. `end` must be called once. */
export interface CountedUpload {
  /** Counts received bytes. False when the account would pass its quota with them. */
  add(bytes: number): boolean | Promise<boolean>;
  /** `storedBytes`: the upload became a file of this size. */
  end(storedBytes?: number): void;
}

export interface UploadQuota {
  /** Undefined when the account has no room for an upload of at least this size. */
  begin(accountId: string, announcedBytes: number): Promise<CountedUpload | undefined>;
}

interface AccountAmounts {
  /** As last read from the store, plus what was stored since. Too high when files were deleted: read again before a refusal. */
  stored: StoredAmount;
  receiving: StoredAmount;
}

const NO_LIMIT: CountedUpload = { add: () => true, end() {} };

/**
 * Counts the bytes of uploads while they arrive, so that many uploads at once cannot fill the disk before the store refuses them.
 * Only uploads of this process are counted; the store itself keeps the quota exact when a file is recorded.
 */
export function createUploadQuota(files: Pick<FileRepository, 'stored'>, quota: Quota): UploadQuota {
  const accounts = new Map<string, AccountAmounts>();

  const hasRoom = ({ stored, receiving }: AccountAmounts, items: number, bytes: number): boolean =>
    (quota.items === 0 || stored.items + receiving.items + items <= quota.items) &&
    (quota.bytes === 0 || stored.bytes + receiving.bytes + bytes <= quota.bytes);

  return {
    async begin(accountId, announcedBytes) {
      if (quota.items === 0 && quota.bytes === 0) return NO_LIMIT;
      const stored = await files.stored(accountId);
      const account = accounts.get(accountId) ?? { stored, receiving: { items: 0, bytes: 0 } };
      account.stored = stored;
      if (!hasRoom(account, 1, announcedBytes)) return undefined;
      accounts.set(accountId, account);
      account.receiving.items += 1;
      account.receiving.bytes += announcedBytes;
      let counted = announcedBytes;
      let received = 0;

      const grow = (): boolean => {
        if (!hasRoom(account, 0, received - counted)) return false;
        account.receiving.bytes += received - counted;
        counted = received;
        return true;
      };
      return {
        add(bytes) {
          received += bytes;
          if (received <= counted || grow()) return true;
          return files.stored(accountId).then((current) => {
            account.stored = current;
            return grow();
          });
        },
        end(storedBytes) {
          account.receiving.items -= 1;
          account.receiving.bytes -= counted;
          if (storedBytes !== undefined) {
            account.stored = { items: account.stored.items + 1, bytes: account.stored.bytes + storedBytes };
          }
          if (account.receiving.items === 0) accounts.delete(accountId);
        },
      };
    },
  };
}
