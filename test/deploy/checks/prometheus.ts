import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { startServer } from '../../acceptance/start-server.ts';
import type { Check } from '../check.ts';
import { succeed, unpacked } from '../tools.ts';

const DEPLOY = join(import.meta.dirname, '../../../deploy');
const FIXTURES = join(import.meta.dirname, '../fixtures');
const promtool = () => unpacked('promtool', 'prometheus');

export const checks: readonly Check[] = [
  {
    name: 'promtool reads the configuration and the alerts',
    async run() {
      await succeed(await promtool(), [
        'check',
        'rules',
        '--lint-fatal',
        join(DEPLOY, 'helm/baobab/files/alerts.yaml'),
      ]);
      await succeed(await promtool(), ['check', 'config', '--syntax-only', join(DEPLOY, 'compose/prometheus.yaml')]);
      return undefined;
    },
  },
  {
    name: 'alerts fire when no server takes requests, and not while one is replaced',
    async run() {
      await succeed(await promtool(), ['test', 'rules', join(FIXTURES, 'alerts.test.yaml')]);
      return undefined;
    },
  },
  {
    name: 'promtool finds nothing in the metrics of a server',
    async run() {
      await using server = await startServer();
      const metrics = await (await fetch(`${server.address}/metrics`)).text();
      assert.match(metrics, /^baobab_ready 1$/m);
      assert.match(metrics, /^baobab_store_up 1$/m);
      const child = spawn(await promtool(), ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
      const exit = once(child, 'exit');
      child.stdin.end(metrics);
      const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), exit]);
      assert.equal(`${stdout}${stderr}`, '');
      return `${metrics.match(/^# TYPE/gm)?.length} metrics`;
    },
  },
];
