import { WeightsError } from '../weights-error.ts';
import { networkFailure } from './network-failure.ts';
import { createArchiveReader, type PackageArchives, withoutLogin } from './package-archives.ts';

/** A group and an artifact, such as `org.acme:weights`. */
const ARTIFACT = /^([a-z0-9_-]+(?:\.[a-z0-9_-]+)*):([a-z0-9][\w.-]*)$/i;
const VERSION = /^[a-z0-9][\w.+-]*$/i;

export interface MavenRepositoryDependencies {
  /** May hold a user name and password. */
  url: string;
  fetch: typeof fetch;
}

const nameOf = (url: string): string => `the Maven repository ${new URL(url).host}`;

/** Jars of a Maven repository. Their addresses follow from their names. */
export function createMavenRepository({ url: repository, fetch }: MavenRepositoryDependencies): PackageArchives {
  const { sizeOf, openRange } = createArchiveReader(async () => ({ baseUrls: [repository], fetch }), nameOf);
  const base = withoutLogin(repository).url.href.replace(/\/$/, '');

  return {
    nameOf,
    sizeOf,
    openRange,

    async locate(packageName, version, signal) {
      const [, group, artifact] = ARTIFACT.exec(packageName) ?? [];
      if (group === undefined || !VERSION.test(version)) {
        throw new WeightsError('invalid', `'${packageName}' ${version} is not a Maven artifact and a version`);
      }
      const url = `${base}/${group.replaceAll('.', '/')}/${artifact}/${version}/${artifact}-${version}.jar`;
      try {
        await sizeOf(url, signal);
      } catch (error) {
        signal.throwIfAborted();
        throw networkFailure(`jar of ${packageName} ${version}`, nameOf(url), error);
      }
      return url;
    },
  };
}
