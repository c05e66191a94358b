import type { Logger } from '@baobab/core/ports/logger.ts';
import type { Secret } from '@baobab/core/ports/secret.ts';
import type { KnownSecrets } from '@baobab/core/runtime/secret-scrubber.ts';
import { secretProblem } from '../config/load.ts';
import { readSecretFile } from '../config/secret-files.ts';
import { partsOfSecret } from '../config/secrets.ts';

export interface SecretSetting {
  /** Such as `metrics.token`. That of an upstream is `api_key`. */
  key: string;
  /** As the configuration has it. */
  value: string | undefined;
  /** The file that it is from. Without one it never changes. */
  file: string | undefined;
}

/** Secrets that are not in a file of our settings, such as those of the AWS SDK. */
export interface SecretSource {
  /** For the log. */
  name: string;
  /** Returns whether there are new ones. Rejects when they cannot be read: the old ones stay in use. */
  refresh(): Promise<boolean>;
}

/** Dispose of it when it is no longer used. */
export type HeldSecret = Secret & Disposable;

interface SecretFilesDependencies {
  known: Pick<KnownSecrets, 'add'>;
  logger: Logger;
}

const REPLACED = 'a secret was replaced, using the new one';
const NOT_READ = 'failed to read a secret again, using the old one';

/** Every secret that this process can read again: when it is refused, and on SIGHUP. */
export class SecretFiles {
  readonly #dependencies: SecretFilesDependencies;
  readonly #files = new Map<string, SecretFile>();
  readonly #sources: SecretSource[] = [];

  constructor(dependencies: SecretFilesDependencies) {
    this.#dependencies = dependencies;
  }

  /** Undefined where none is set. */
  hold({ key, value, file }: SecretSetting): HeldSecret | undefined {
    if (value === undefined) return undefined;
    if (file === undefined) return { value, reread: () => value, [Symbol.dispose]() {} };
    const id = `${key} ${file}`;
    const secret = this.#files.get(id) ?? new SecretFile({ key, value, file }, this.#dependencies);
    this.#files.set(id, secret);
    secret.users += 1;
    return {
      get value() {
        return secret.value;
      },
      reread: () => secret.reread(),
      [Symbol.dispose]: () => {
        secret.users -= 1;
        if (secret.users === 0) this.#files.delete(id);
      },
    };
  }

  add(source: SecretSource): void {
    this.#sources.push(source);
  }

  /** Logs what has changed, and what cannot be read. */
  async rereadAll(): Promise<void> {
    const { logger } = this.#dependencies;
    for (const secret of this.#files.values()) secret.reread({ logsAgain: true });
    for (const { name, refresh } of this.#sources) {
      try {
        if (await refresh()) logger.info({ secret: name }, REPLACED);
      } catch (error) {
        logger.error({ secret: name, problem: (error as Error).message }, NOT_READ);
      }
    }
    logger.info({}, 'read the secrets again');
  }
}

class SecretFile {
  value: string;
  users = 0;
  readonly #setting: { key: string; file: string };
  readonly #dependencies: SecretFilesDependencies;
  /** Logged already: it may be refused, and read, with every request. */
  #problem: string | undefined;

  constructor(setting: { key: string; value: string; file: string }, dependencies: SecretFilesDependencies) {
    this.value = setting.value;
    this.#setting = setting;
    this.#dependencies = dependencies;
  }

  reread({ logsAgain = false } = {}): string {
    const { key, file } = this.#setting;
    const { known, logger } = this.#dependencies;
    const facts = { setting: `${key}_file`, file };
    try {
      const value = readSecretFile(file);
      const problem = secretProblem(key, value);
      if (problem !== undefined) throw new Error(`the content of ${file} ${problem}`);
      this.#problem = undefined;
      if (value !== this.value) {
        known.add(partsOfSecret(value));
        this.value = value;
        logger.info(facts, REPLACED);
      }
    } catch (error) {
      const { message } = error as Error;
      if (logsAgain || message !== this.#problem) logger.error({ ...facts, problem: message }, NOT_READ);
      this.#problem = message;
    }
    return this.value;
  }
}
