import type { Logger } from '@baobab/core/ports/logger.ts';
import type { KeysService } from '../services/access/keys.ts';

/** `api_key` sets only the first key of an empty store. Later it has no effect, so its value may not be a key at all. */
export async function reportUnusedKey(
  secret: string | undefined,
  { keys, logger }: { keys: Pick<KeysService, 'findBySecret'>; logger: Pick<Logger, 'info' | 'warn'> },
): Promise<void> {
  if (secret === undefined) return;
  const key = await keys.findBySecret(secret);
  if (key === undefined) {
    logger.warn(
      { setting: 'api_key' },
      "api_key is not used: this store has keys already, and none of them is this one. 'baobab keys create' makes another key",
    );
  } else if (key.revokedAt !== null) {
    logger.warn({ setting: 'api_key', key: key.id }, 'api_key is not used, and the key with this value was revoked');
  } else {
    logger.info({ setting: 'api_key', key: key.id }, 'api_key has no effect: the store has this key already');
  }
}
