import type { Driver } from '@baobab/core/engine/driver.ts';
import type { TSchema } from 'typebox';
import { command } from './programs/driver.ts';

const PACKAGE = '@baobab/engines';

/** For a message that begins with what cannot be done here. */
export const NEEDS_ENGINES = `needs ${PACKAGE}, which is not installed: install it beside @baobab/server and restart`;

/** Undefined where the engines are not installed. A package that is there and does not load is an error. */
export async function ifInstalled<Module>(load: () => Promise<Module>): Promise<Module | undefined> {
  try {
    return await load();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${PACKAGE}'`)) return undefined;
    throw error;
  }
}

/** Models that only upstreams run. The catalog describes them; the configuration says where they are. */
const remote: Driver = {
  name: 'remote',
  tasks: { chat: {}, embedding: {}, 'cross-encoder': {}, transcription: {} },
  settings: {},
};

const local: readonly Driver[] | undefined = (await ifInstalled(() => import('@baobab/engines/drivers.ts')))?.drivers;

/** For servers without the engines: the catalog describes models of these drivers, and upstreams can serve them. */
export const LOCAL_DRIVERS = ['onnx', 'llama'];
const absent = LOCAL_DRIVERS.map((name) => ({ name, tasks: {}, settings: {}, isAbsent: true }));

export const drivers: readonly Driver[] = [...(local ?? absent), command, remote];

/** The drivers' part of the section `engines` of the configuration. */
export const driverSettings: Readonly<Record<never, TSchema>> = Object.assign(
  {},
  ...drivers.map(({ settings }) => settings),
);
