import { snake } from '../validation/names.ts';
import type { Config } from './schema.ts';

type Locate = (path: readonly string[]) => string;

interface PartAddress {
  name: 'store' | 'counters' | 'blobs' | 'blobsEndpoint';
  isValid(text: string): boolean;
  example: string;
}

const ADDRESSES: readonly PartAddress[] = [
  {
    name: 'store',
    isValid: (text) => /^postgres(ql)?:\/\/./.test(text) && URL.canParse(text),
    example: 'postgres://user:password@127.0.0.1:5432/baobab',
  },
  {
    name: 'counters',
    isValid: (text) =>
      /^rediss?:\/\/([^@/]*@)?[^/?@,]+(\/\d*)?(\?.*)?$/.test(text) ||
      /^rediss?\+sentinel:\/\/([^@/]*@)?[^/?@]+\/[^/?]+(\/\d*)?(\?.*)?$/.test(text),
    example: 'redis://:password@127.0.0.1:6379 or redis+sentinel://host1:26379,host2:26379/mymaster',
  },
  {
    name: 'blobs',
    isValid: (text) => /^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[\w-][\w.-]*)*\/?$/.test(text),
    example: 's3://bucket/prefix',
  },
  {
    name: 'blobsEndpoint',
    isValid: (text) => /^https?:\/\/[^/?#@]+\/?$/.test(text) && URL.canParse(text),
    example: 'https://s3.example.com, without a path, user or password',
  },
];

/** Addresses of the parts that servers share. Messages do not repeat them: they may contain a password. */
export function partAddressProblems(values: unknown, locate: Locate): string[] {
  const settings = values as Partial<Config>;
  const dependent = (['blobsEndpoint', 'blobsPresignedDownloads'] as const)
    .filter((name) => settings.blobs === undefined && settings[name])
    .map((name) => `${locate([name])}: ${snake(name)}: needs blobs, such as s3://bucket/prefix`);
  const wrong = ADDRESSES.flatMap(({ name, isValid, example }) => {
    const text = settings[name];
    if (typeof text !== 'string' || isValid(text)) return [];
    return [`${locate([name])}: ${snake(name)}: must be an address such as ${example}`];
  });
  return [...wrong, ...dependent];
}
