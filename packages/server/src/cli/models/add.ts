import { resolve } from 'node:path';
import type { AuditedChange } from '@baobab/core/domain/audit/entry.ts';
import { MODALITIES, type Modality } from '@baobab/core/domain/model.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { POOLINGS, type Pooling } from '../../catalog/adding/pooling.ts';
import { AddError } from '../../catalog/adding/reference.ts';
import { addModel, removeModel } from '../../compose/added-models.ts';
import { openAdministration } from '../../compose/administration.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { askCatalogReload } from '../../control/client.ts';
import { type CommandContext, CommandFailed, UsageError } from '../command.ts';
import { integerOption } from '../options.ts';
import { sayWhenSlow } from '../progress.ts';

const text = { type: 'string' } as const;

export const ADD_OPTIONS = {
  slug: text,
  modality: text,
  'context-length': text,
  dimensions: text,
  pooling: text,
  name: text,
  'upstream-key-file': text,
} as const;

type AddValues = { [Option in keyof typeof ADD_OPTIONS]?: string | undefined };

function modalityOption(given: string | undefined): Modality | undefined {
  const found = MODALITIES.find((each) => each === given);
  if (given !== undefined && found === undefined) {
    throw new UsageError(`--modality must be one of ${MODALITIES.join(', ')}, not '${given}'`);
  }
  return found;
}

function poolingOption(given: string | undefined): Pooling | undefined {
  const found = POOLINGS.find((each) => each === given);
  if (given !== undefined && found === undefined) {
    throw new UsageError(`--pooling must be one of ${POOLINGS.join(', ')}, not '${given}'`);
  }
  return found;
}

/** Opens the store only for a change that is about to be made. */
const recorder = (config: ResolvedConfig) => async (change: AuditedChange) => {
  await using administration = await openAdministration(config);
  await administration.record(change);
};

/** Tells a running server, and says when the model can be used. */
async function announce({ config }: CommandContext, now: string): Promise<string> {
  const answer = await askCatalogReload(config.dataDir);
  if (answer === undefined) return 'no server is running';
  if (answer.problem === undefined) return now;
  throw new CommandFailed(`the running server could not read the catalog again: ${answer.problem}`);
}

export async function addToCatalog(source: string, values: AddValues, context: CommandContext): Promise<string> {
  const { config, env, print, warn } = context;
  const keyFile = values['upstream-key-file'];
  const options = {
    slug: values.slug,
    modality: modalityOption(values.modality),
    contextLength: integerOption('context-length', values['context-length']),
    dimensions: integerOption('dimensions', values.dimensions),
    pooling: poolingOption(values.pooling),
    name: values.name,
    apiKeyFile: keyFile === undefined ? undefined : resolve(keyFile),
  };
  try {
    const {
      entry,
      upstream,
      notes = [],
    } = await sayWhenSlow(
      `looking at ${source}`,
      addModel(source, options, { config, env, record: recorder(config) }),
      (text) => warn?.(text),
    );
    const facts = [
      entry.modality,
      entry.context_length === undefined ? '' : `context ${entry.context_length}`,
      entry.dimensions === undefined ? '' : `${entry.dimensions} dimensions`,
      entry.engine === undefined ? '' : `pooling ${(entry.engine as { pooling: Pooling }).pooling}`,
      upstream === undefined ? '' : `${upstream.kind} at ${upstream.url}`,
    ];
    print(
      `added ${entry.slug} (${facts.filter((fact) => fact !== '').join(', ')}); ${await announce(context, 'the running server serves it now')}`,
    );
    for (const note of notes) print(`note: ${note}`);
    if ((entry.source as { kind?: string } | undefined)?.kind === 'hf') {
      print(`its weights are fetched when it is first used, or now with 'baobab models pull ${entry.slug}'`);
    }
    return entry.slug;
  } catch (error) {
    if (!(error instanceof AddError)) throw error;
    const detail = error.cause instanceof Error ? ` (${systemReason(error.cause)})` : '';
    throw new CommandFailed(`cannot add it: ${error.message}${detail}\n'baobab models --help' shows what can be added`);
  }
}

/** Takes added models out of the catalog. Returns those that were. */
export async function removeFromCatalog(slugs: readonly string[], context: CommandContext): Promise<string[]> {
  const { config } = context;
  const removed: string[] = [];
  for (const slug of slugs) if (await removeModel(slug, { config, record: recorder(config) })) removed.push(slug);
  if (removed.length > 0)
    context.print(
      `removed ${removed.join(', ')} from the catalog; ${await announce(context, 'the running server has stopped serving it')}`,
    );
  return removed;
}
