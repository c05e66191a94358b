import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Value } from 'typebox/value';
import { UpstreamSchema, type UpstreamSettings } from '../upstreams/upstream-settings.ts';
import { readYaml, yamlFiles } from '../validation/document.ts';
import { problemsOf } from '../validation/problems.ts';
import { ConfigError } from './load.ts';
import { readSecretFiles } from './secret-files.ts';

/** Upstreams that `models add` wrote, one in each file below the directory. */
export function readAddedUpstreams(directory: string): UpstreamSettings[] {
  if (!existsSync(directory)) return [];
  const problems: string[] = [];
  const upstreams = yamlFiles(directory).map((name) => {
    const file = join(directory, name);
    const document = readYaml(file);
    const upstream = Value.Default(UpstreamSchema, document.value);
    const found = [...document.problems];
    if (found.length === 0) found.push(...problemsOf(UpstreamSchema, upstream, document.locate));
    readSecretFiles(UpstreamSchema, upstream, {
      workingDirectory: dirname(file),
      onRead: () => {},
      onProblem: (path, text) => found.push(`${document.locate(path)}: ${path.join('.')}: ${text}`),
    });
    problems.push(...found);
    return upstream as UpstreamSettings;
  });
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
  return upstreams;
}
