import type {
  AcceleratorDependencies,
  AcceleratorModule,
  Accelerators,
  MachineFacts,
} from '@baobab/core/engine/driver.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';

export interface AcceleratorOptions extends Omit<AcceleratorDependencies, 'machine' | 'logger'> {
  facts: MachineFacts;
  logger: Pick<Logger, 'info' | 'warn'>;
}

/** `module`: of the driver. It is imported here, because most commands and drivers do without. */
export async function openDriverAccelerators(module: URL, options: AcceleratorOptions): Promise<Accelerators> {
  const { facts, ...rest } = options;
  const { createAccelerators }: AcceleratorModule = await import(module.href);
  return createAccelerators({ ...rest, machine: facts });
}
