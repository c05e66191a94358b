import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Check } from '../check.ts';
import { goTool, succeed } from '../tools.ts';

const COMPOSE = join(import.meta.dirname, '../../../deploy/compose');

interface Service {
  image: string;
  mem_limit?: string;
  security_opt?: string[];
  environment?: Record<string, string>;
  volumes?: { type: string; source: string }[];
}

interface Project {
  services: Record<string, Service>;
  configs: Record<string, { content: string }>;
}

const TEXT = readFileSync(join(COMPOSE, 'compose.yaml'), 'utf8');

/** As the library of Docker Compose reads it, with a value for each variable. (Its own program does not look at the environment.) */
async function project(): Promise<Project> {
  const folder = await mkdtemp(join(tmpdir(), 'baobab-compose-'));
  try {
    const file = join(folder, 'compose.yaml');
    await writeFile(file, TEXT.replaceAll(/\$\{([A-Z0-9_]+):\?[^}]+\}/g, 'value-of-$1'));
    const flags = ['--no-interpolation', '--no-path-resolution', '--format', 'json'];
    return JSON.parse(await succeed(goTool('compose-go'), [...flags, file], { cwd: folder })) as Project;
  } finally {
    await rm(folder, { recursive: true });
  }
}

export const checks: readonly Check[] = [
  {
    name: 'the library of Docker Compose reads the file, and no secret has a default',
    async run() {
      assert.equal(Object.keys((await project()).services).length, 9);
      const variables = [...TEXT.matchAll(/\$\{[^}]+\}/g)].map(([variable]) => variable);
      assert.ok(variables.length >= 10);
      for (const variable of variables) assert.match(variable, /^\$\{[A-Z0-9_]+:\?set it in \.env\}$/);
      return undefined;
    },
  },
  {
    name: 'every container has a version, a limit of memory and no way to more rights',
    async run() {
      for (const [name, { image, mem_limit, security_opt = [], volumes = [] }] of Object.entries(
        (await project()).services,
      )) {
        assert.ok(image === 'value-of-IMAGE' || /:v?\d+\.\d+(\.\d+)?(-\w+)?$/.test(image), `${name}: ${image}`);
        assert.ok(mem_limit !== undefined, `${name} has no mem_limit`);
        assert.ok(security_opt.includes('no-new-privileges:true'), name);
        const files = volumes.filter(({ type }) => type === 'bind').map(({ source }) => source);
        for (const file of files) assert.ok(existsSync(join(COMPOSE, file)), `${name} mounts ${file}`);
      }
      return undefined;
    },
  },
  {
    name: 'Redis asks for the password that the servers have',
    async run() {
      const { services, configs } = await project();
      assert.match(configs.valkey?.content ?? '', /^requirepass value-of-VALKEY_PASSWORD$/m);
      assert.equal(
        services['replica-1']?.environment?.BAOBAB_COUNTERS,
        'redis://:value-of-VALKEY_PASSWORD@valkey:6379',
      );
      return undefined;
    },
  },
];
