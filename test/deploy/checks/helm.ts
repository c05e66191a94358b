import { join } from 'node:path';
import type { Check } from '../check.ts';
import { goTool, succeed } from '../tools.ts';

const CHART = join(import.meta.dirname, '../../../deploy/helm/baobab');

export const checks: readonly Check[] = [
  {
    name: 'helm lint finds nothing in the chart',
    async run() {
      await succeed(await goTool('helm'), ['lint', '--strict', CHART, '--set', 'replicas=1']);
      return undefined;
    },
  },
];
