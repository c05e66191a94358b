import type { Logger } from '../../ports/logger.ts';
import type { AcceleratorDependencies, AcceleratorModule, Accelerators } from '../driver.ts';
import { createMachineFacts } from './machine-facts.ts';

export interface AcceleratorOptions extends Omit<AcceleratorDependencies, 'machine' | 'logger'> {
  /** Keeps what was found out about this machine. */
  machineFile: string | undefined;
  logger: Pick<Logger, 'info' | 'warn'>;
}

/** `module`: of the driver. It is imported here, because most commands and drivers do without. */
export async function openDriverAccelerators(module: URL, options: AcceleratorOptions): Promise<Accelerators> {
  const { machineFile, ...rest } = options;
  const { createAccelerators }: AcceleratorModule = await import(module.href);
  return createAccelerators({ ...rest, machine: createMachineFacts(machineFile, rest.logger) });
}
