import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the installation, with the built-in catalog and the weights that ship with it. */
export const INSTALLATION = fileURLToPath(new URL('../../../..', import.meta.url));

export const BUILT_IN_CATALOG = join(INSTALLATION, 'catalog');
