import { join } from 'node:path';
import type { Accelerators } from '@baobab/core/engine/driver.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { drivers } from '../drivers.ts';
import { createMachineFacts } from '../host/machine-facts.ts';
import { openDriverAccelerators } from '../host/registry.ts';
import type { Environment } from './weights.ts';

export const machineFile = (config: Pick<ResolvedConfig, 'dataDir'>) => join(config.dataDir, 'machine.json');

/** Where `baobab engines build` puts programs. */
export const programFolder = (config: Pick<ResolvedConfig, 'dataDir'>) => join(config.dataDir, 'engines');

/** The GPUs of this machine, for a command. */
export async function openAccelerators(
  config: ResolvedConfig,
  env: Environment,
  warn: (text: string) => void,
): Promise<Accelerators> {
  const module = drivers.find(({ local }) => local?.accelerators !== undefined)?.local?.accelerators;
  if (module === undefined) throw new Error('no driver can use a GPU');
  const logger = { info() {}, warn: (_: object, text: string) => warn(text) };
  // The whole environment: a build needs the variables of compilers.
  return openDriverAccelerators(module, {
    settings: config.engines,
    machine: createMachineFacts(machineFile(config), logger),
    environment: env,
    logger,
  });
}
