/**
 * Makes a release of HEAD and installs it as an ordinary user would: `npm run test:release`. Needs git, npm and a registry, and takes some ten
 * minutes: it is not part of `npm test`.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../fixtures/free-port.ts';

const ROOT = join(import.meta.dirname, '../..');
const KEY = 'first-key-of-the-release-test';
const MB = 1e6;
/** Bytes of installed files, without models. npm adds what others ship: sources, types, maps. */
const BOUNDS = { gateway: 120 * MB, everything: 300 * MB };
/** `nobody`, where this runs as root. */
const ORDINARY = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

const folder = mkdtempSync(join(tmpdir(), 'baobab-release-'));
chmodSync(folder, 0o755);
const say = (line: string) => process.stdout.write(`${line}\n`);

function ownFolder(name: string): string {
  const path = join(folder, name);
  mkdirSync(path, { recursive: true });
  if (ORDINARY.uid !== undefined) chownSync(path, ORDINARY.uid, ORDINARY.gid);
  return path;
}

/** Of the ordinary user. */
function writeOwnFile(path: string, content: string): void {
  writeFileSync(path, content);
  if (ORDINARY.uid !== undefined) chownSync(path, ORDINARY.uid, ORDINARY.gid);
}

interface Outcome {
  code: number | null;
  stdout: string;
  stderr: string;
}

async function run(command: string, args: readonly string[], options: SpawnOptions = {}): Promise<Outcome> {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] }) as ChildProcess;
  const exit = once(child, 'exit');
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout as never), text(child.stderr as never), exit]);
  return { code, stdout, stderr };
}

async function succeed(command: string, args: readonly string[], options: SpawnOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await run(command, args, options);
  assert.equal(code, 0, `${command} ${args.join(' ')}\n${stdout}${stderr}`);
  return stdout;
}

const setting = async (name: string) => (await succeed('npm', ['config', 'get', name])).trim();
const home = ownFolder('home');
const empty = ownFolder('empty');
const PATH = `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`;
/** Certificates and proxies of the machine, but nothing of this user's npm or Baobab. */
const inherited = Object.entries(process.env).filter(([name]) => !/^(npm_|baobab_|node_compile)/i.test(name));
const env: Record<string, string> = {
  ...(Object.fromEntries(inherited) as Record<string, string>),
  PATH,
  HOME: home,
  npm_config_registry: await setting('registry'),
  npm_config_audit: 'false',
  npm_config_fund: 'false',
  npm_config_update_notifier: 'false',
};
const asUser = { ...ORDINARY, cwd: empty, env };

/** An installation of its own: what `npm install --global` makes, and what its command does. */
function installation(name: string, npmEnv: Record<string, string> = env) {
  const prefix = ownFolder(name);
  const dataDir = join(home, `${name}-data`);
  const npm = (...args: string[]) =>
    succeed('npm', [...args, '--global', '--prefix', prefix], { ...asUser, env: npmEnv });
  const baobab = (...args: string[]) =>
    run(join(prefix, 'bin/baobab'), args, { ...asUser, env: { ...env, BAOBAB_DATA_DIR: dataDir } });
  return {
    prefix,
    dataDir,
    baobab,
    install: (...args: string[]) => npm('install', ...args),
    uninstall: (...args: string[]) => npm('uninstall', ...args),
    bytes: () =>
      globSync('**/*', { cwd: join(prefix, 'lib'), withFileTypes: true })
        .filter((entry) => entry.isFile())
        .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0),

    /** Starts the server, and stops it after `use`. Returns its whole output. */
    async serve(use?: (address: string) => Promise<void>): Promise<Outcome> {
      const port = await freePort();
      const address = `http://127.0.0.1:${port}`;
      const child = spawn(join(prefix, 'bin/baobab'), ['serve', '--port', `${port}`], {
        ...asUser,
        env: { ...env, BAOBAB_DATA_DIR: dataDir, BAOBAB_FIRST_KEY: KEY },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const exit = once(child, 'exit');
      const outcome = Promise.all([text(child.stdout), text(child.stderr), exit]);
      try {
        while (
          child.exitCode === null &&
          !(await fetch(`${address}/readyz`).then(
            ({ ok }) => ok,
            () => false,
          ))
        )
          await sleep(100);
        if (child.exitCode === null) await use?.(address);
      } finally {
        child.kill('SIGTERM');
      }
      const [stdout, stderr, [code]] = await outcome;
      return { code, stdout, stderr };
    },
  };
}

const post = (url: string, body: object) =>
  fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

async function step(name: string, work: () => Promise<unknown>): Promise<void> {
  const startedAt = performance.now();
  const found = await work();
  say(
    `ok  ${name}${typeof found === 'string' ? `: ${found}` : ''} (${Math.round((performance.now() - startedAt) / 1000)} s)`,
  );
}

/** A registry of our own in front of the machine's. */
async function startRegistry() {
  const home = ownFolder('registry');
  // A dependency of Verdaccio names a tag that not every registry has.
  writeOwnFile(join(home, 'package.json'), '{"overrides": {"node-fetch": "^2.7.0"}}');
  await succeed('npm', ['install', '--ignore-scripts', 'verdaccio@6'], { ...asUser, cwd: home });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/`;
  const anyone = { access: '$all', publish: '$all' };
  const config = {
    storage: join(home, 'storage'),
    auth: { htpasswd: { file: join(home, 'users') } },
    uplinks: { machine: { url: env.npm_config_registry ?? '', cache: false, timeout: '60s' } },
    packages: { baobab: anyone, '@baobab/*': anyone, '**': { access: '$all', proxy: 'machine' } },
    max_body_size: '500mb',
    log: { type: 'stdout', level: 'error' },
  };
  // Verdaccio reads YAML, of which JSON is a part.
  writeOwnFile(join(home, 'config.yaml'), JSON.stringify(config));
  const program = join(home, 'node_modules/verdaccio/bin/verdaccio');
  const listen = ['--config', join(home, 'config.yaml'), '--listen', `127.0.0.1:${port}`];
  const server = spawn(process.execPath, [program, ...listen], {
    ...asUser,
    env: { ...process.env, ...env },
    stdio: 'ignore',
  });
  const exit = once(server, 'exit');
  while (
    server.exitCode === null &&
    !(await fetch(`${url}-/ping`).then(
      ({ ok }) => ok,
      () => false,
    ))
  )
    await sleep(100);
  assert.equal(server.exitCode, null, 'the registry runs');
  const npmrc = join(home, '.npmrc');
  writeOwnFile(npmrc, `registry=${url}\n//127.0.0.1:${port}/:_authToken=anyone\n`);
  const { npm_config_registry: _, ...others } = env;
  return {
    env: { ...others, npm_config_userconfig: npmrc, npm_config_cache: ownFolder('registry-cache') },
    async [Symbol.asyncDispose]() {
      server.kill();
      await exit;
    },
  };
}

const checkout = join(folder, 'checkout');
const node = (...args: string[]) =>
  succeed(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], { cwd: checkout });
const dist = join(checkout, 'dist');
const tarballs = () =>
  readdirSync(dist)
    .filter((name) => name.endsWith('.tgz'))
    .map((name) => join(dist, name));
const gatewayOf = (directory: string) =>
  globSync('baobab-{[0-9],core-,server-,console-}*.tgz', { cwd: directory }).map((name) => join(directory, name));
const keys = generateKeyPairSync('ed25519');
writeFileSync(join(folder, 'key.pem'), keys.privateKey.export({ type: 'pkcs8', format: 'pem' }));
writeFileSync(join(folder, 'key.pub'), keys.publicKey.export({ type: 'spki', format: 'pem' }));
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

try {
  await step('two releases of a commit are the same', async () => {
    await succeed('git', ['clone', '--quiet', '--local', ROOT, checkout]);
    symlinkSync(join(ROOT, 'node_modules'), join(checkout, 'node_modules'));
    const release = async () => {
      const printed = await node('scripts/release.ts', '--key', join(folder, 'key.pem'));
      return { printed, sums: readFileSync(join(dist, 'SHA256SUMS'), 'utf8') };
    };
    const [one, two] = [await release(), await release()];
    assert.equal(two.sums, one.sums);
    return one.printed.trim().split('\n').slice(-2).join(', ');
  });
  const commit = (await succeed('git', ['rev-parse', 'HEAD'], { cwd: checkout })).slice(0, 8);

  const gateway = installation('gateway');
  await step('a gateway installs within its bound', async () => {
    await gateway.install('--omit=optional', ...gatewayOf(dist));
    const bytes = gateway.bytes();
    assert.ok(bytes <= BOUNDS.gateway, `${bytes} bytes`);
    assert.equal((await gateway.baobab('--version')).stdout, `${version} (${commit})\n`);
    return `${Math.round(bytes / MB)} MB of files`;
  });
  await step('it verifies the release', async () => {
    const { stdout, stderr } = await gateway.baobab('verify-release', dist, '--key', join(folder, 'key.pub'));
    assert.match(stdout, /files are as they were signed/, stderr);
  });
  await step('it starts without engines, and says what a model needs', async () => {
    const { code, stdout, stderr } = await gateway.serve(async (address) => {
      assert.equal((await fetch(`${address}/console`)).status, 200);
      const answer = await post(`${address}/v1/embeddings`, { model: 'baobab/embed-multilingual', input: 'Habari' });
      assert.equal(answer.status, 503);
      assert.match(await answer.text(), /@baobab\/engines, which is not installed/);
    });
    assert.equal(code, 0, stdout + stderr);
  });

  await step('the next version migrates its store, and the older one then refuses it', async () => {
    const migrations = join(checkout, 'packages/server/src/adapters/sql/sqlite/migrations/index.ts');
    const next = join(folder, 'next');
    for (const [path, from, to] of [
      [join(checkout, 'package.json'), `"version": "${version}"`, '"version": "0.99.0"'],
      [migrations, "  '0001-initial': initial,", "  '0001-initial': initial,\n  '9999-next': { async up() {} },"],
    ] as const) {
      const content = readFileSync(path, 'utf8');
      assert.ok(content.includes(from), path);
      writeFileSync(path, content.replace(from, to));
    }
    const script = `const { GATEWAY, pack } = await import('./scripts/release/packages.ts'); for (const name of GATEWAY) await pack(name, ${JSON.stringify(next)}, null);`;
    await node('--input-type=module', '--eval', script);
    await gateway.install('--omit=optional', ...gatewayOf(next));
    assert.match((await gateway.baobab('--version')).stdout, /^0\.99\.0/);
    await gateway.serve(async (address) => {
      const answer = await fetch(`${address}/v1/keys/me`, { headers: { authorization: `Bearer ${KEY}` } });
      assert.equal(answer.status, 200, 'the key of the older version');
    });
    await gateway.install('--omit=optional', ...gatewayOf(dist));
    const { code, stderr } = await gateway.serve();
    assert.equal(code, 1);
    assert.match(
      stderr,
      /written by a newer version of Baobab \(it has '9999-next'\)\. Start that version or a later one, or restore a backup/,
    );
    return stderr.trim();
  });

  await step('uninstalled, it leaves only data', async () => {
    await gateway.uninstall('baobab', ...['core', 'server', 'console'].map((name) => `@baobab/${name}`));
    const left = globSync('**/*', { cwd: gateway.prefix, withFileTypes: true }).filter((entry) => !entry.isDirectory());
    assert.deepEqual(
      left.map(({ name }) => name).filter((name) => name !== '.package-lock.json'),
      [],
    );
    assert.ok(existsSync(join(gateway.dataDir, 'baobab.sqlite')));
  });

  const whole = installation('whole');
  await step('everything installs within its bound', async () => {
    await whole.install(...tarballs());
    const models = globSync('{chat,embed,rerank}-*/**/*', {
      cwd: join(whole.prefix, 'lib/node_modules/@baobab'),
      withFileTypes: true,
    })
      .filter((entry) => entry.isFile())
      .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
    const bytes = whole.bytes() - models;
    assert.ok(bytes <= BOUNDS.everything, `${bytes} bytes`);
    return `${Math.round(bytes / MB)} MB of files, and ${Math.round(models / MB)} MB of models`;
  });
  await step('a model of each engine answers', async () => {
    const { code, stdout, stderr } = await whole.serve(async (address) => {
      const embedding = await post(`${address}/v1/embeddings`, {
        model: 'baobab/embed-multilingual',
        input: 'Habari ya dunia',
      });
      const answer = (await embedding.json()) as { data?: { embedding: number[] }[] };
      assert.equal(answer.data?.[0]?.embedding.length, 384, JSON.stringify(answer));
      const messages = [{ role: 'user', content: 'Translate to Swahili: Good morning.' }];
      const chat = await post(`${address}/v1/chat/completions`, { model: 'baobab/chat-mini', messages, max_tokens: 8 });
      assert.equal(chat.status, 200, await chat.text());
    });
    assert.equal(code, 0, stdout + stderr);
  });
  await step('from a registry it installs and runs by its name, in an empty folder', async () => {
    await using registry = await startRegistry();
    for (const tarball of tarballs()) {
      await succeed('npm', ['publish', tarball, '--tag', 'latest'], { ...asUser, env: registry.env });
    }
    const project = ownFolder('project');
    const within = { ...asUser, cwd: project, env: registry.env };
    assert.equal(await succeed('npx', ['--yes', 'baobab', '--version'], within), `${version} (${commit})\n`);
    const named = installation('named', registry.env);
    await named.install('baobab', '@baobab/embed-multilingual');
    const { code, stdout, stderr } = await named.serve(async (address) => {
      const answer = await post(`${address}/v1/embeddings`, { model: 'baobab/embed-multilingual', input: 'Habari' });
      assert.equal(answer.status, 200, await answer.text());
      const other = await post(`${address}/v1/rerank`, { model: 'baobab/rerank-mini', query: 'a', documents: ['b'] });
      assert.match(await other.text(), /Install @baobab\/rerank-mini beside @baobab\/server and restart/);
    });
    assert.equal(code, 0, stdout + stderr);
  });
  say('all passed');
} finally {
  rmSync(folder, { recursive: true, force: true });
}
