import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadConfig } from '../../config/load.ts';
import { runCommand } from '../testing/run-command.ts';
import { initCommand } from './init.ts';
import { KINDS } from './templates.ts';

const TLS = join(import.meta.dirname, '../../../../../test/fixtures/tls');

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'baobab-init-'));
  file = join(folder, 'baobab.yaml');
});
afterEach(() => rmSync(folder, { recursive: true }));

const init = async (...args: string[]) => {
  const { printed } = await runCommand(initCommand, { args: [file, ...args], dataDir: join(folder, 'data') });
  return printed;
};
const written = () => loadConfig({ args: ['--config', file], env: {}, workingDirectory: folder }).config;
const secret = (name: string) => readFileSync(join(folder, 'secrets', name), 'utf8').trim();

/** Types one line for each question, and then Ctrl-D. */
async function answer(...lines: string[]): Promise<string> {
  const [input, output] = [new PassThrough(), new PassThrough()];
  let screen = '';
  let questions = 0;
  output.on('data', (chunk: Buffer) => {
    screen += chunk.toString();
    for (; screen.split(/(?:\]|PEM|known\)): /).length - 1 > questions; questions += 1) {
      const line = lines.shift();
      setImmediate(() => input.write(line === undefined ? '\u0004' : `${line}\r`));
    }
  });
  const terminal = { input, output };
  const { printed } = await runCommand(initCommand, { args: [file], dataDir: join(folder, 'data'), terminal });
  return `${screen}\n${printed}`;
}

describe('init without a terminal', () => {
  it('writes the settings of a laptop, and says what to type next', async () => {
    const printed = await init();
    expect(printed).toContain('for this computer, for one person.');
    expect(printed).toContain(`npx baobab serve --config `);
    expect(written()).toMatchObject({ host: '127.0.0.1', port: 8080 });
    expect(written().models.warm).toEqual(['huggingfacetb/smollm2-135m-instruct']);
    expect(existsSync(join(folder, 'secrets'))).toBe(false);
  });

  it('writes those of a server behind a proxy, with a first key that only its owner can read', async () => {
    const url = 'https://ai.example.org';
    const args = ['--kind', 'server', '--port', '9000', '--public-url', url, '--model', 'baobab/chat-mini'];
    const printed = await init(...args);
    expect(printed).toContain('has the first key');
    expect(written()).toMatchObject({ host: '127.0.0.1', port: 9000, http: { trustedProxies: ['127.0.0.1'] } });
    expect(written()).toMatchObject({ publicUrl: url, models: { warm: ['baobab/chat-mini'] } });
    expect(secret('first-key')).toMatch(/^bao_sk_[0-9A-Za-z]{40}$/);
    expect(written().firstKey).toBe(secret('first-key'));
    expect(statSync(join(folder, 'secrets/first-key')).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, 'utf8')).not.toContain(secret('first-key'));
  });

  it('writes those of a server with a certificate', async () => {
    await init('--kind', 'server', '--tls-cert', join(TLS, 'first.crt'), '--tls-key', join(TLS, 'first.key'));
    expect(written()).toMatchObject({ host: '0.0.0.0', tls: { cert: join(TLS, 'first.crt') } });
  });

  it('writes those of a cluster, with the secrets in files that it leaves when it is run again', async () => {
    const printed = await init('--kind', 'cluster', '--region', 'eu-west-1', '--blobs', 's3://company/baobab');
    expect(printed).toContain('store needs the address of yours');
    expect(written()).toMatchObject({ region: 'eu-west-1', blobs: 's3://company/baobab', storeJournal: true });
    expect(readFileSync(file, 'utf8')).not.toContain('postgres://');
    writeFileSync(join(folder, 'secrets/store'), 'postgres://me:mine@127.0.0.1/baobab');
    const key = secret('first-key');
    expect(await init('--kind', 'cluster', '--force')).not.toContain('secrets');
    expect(written()).toMatchObject({ store: 'postgres://me:mine@127.0.0.1/baobab', firstKey: key });
  });

  it('replaces the settings of a cluster without asking its database', async () => {
    await init('--kind', 'cluster');
    const args = [file, '--kind', 'laptop', '--force', '--config', file];
    await runCommand(initCommand, { args, dataDir: join(folder, 'data') });
    expect(written().store).toBeUndefined();
  });

  it('refuses settings that it does not write', async () => {
    await expect(init('--host', '0.0.0.0')).rejects.toThrow('init does not write --host');
    expect(existsSync(file)).toBe(false);
  });

  it.each(KINDS)('explains every setting of %s in the line above it', async (kind) => {
    await init('--kind', kind);
    const lines = readFileSync(file, 'utf8').split('\n');
    const unexplained = lines.filter((line, index) => {
      const isSetting = /^ *[a-z_]+: ./.test(line) && !line.startsWith('port:');
      const before = lines.slice(0, index).findLast((each) => !/^ *(embedding|key): /.test(each)) ?? '';
      return isSetting && !/^ *(embedding|key): /.test(line) && !/^ *#/.test(before);
    });
    expect(unexplained).toEqual([]);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(150);
  });

  it('replaces no file that is there, and leaves it when the new settings are wrong', async () => {
    writeFileSync(file, 'port: 1234\n');
    await expect(init()).rejects.toThrow('stays as it is; --force replaces it');
    await expect(init('--force', '--model', 'acme/none')).rejects.toThrow(
      /baobab\.yaml:\d+: models\.warm\.0: there is no model 'acme\/none'/,
    );
    await expect(init('--force', '--kind', 'server', '--tls-cert', '/none', '--tls-key', '/none')).rejects.toThrow(
      'the certificate cannot be used',
    );
    expect(readFileSync(file, 'utf8')).toBe('port: 1234\n');
    await expect(init('--kind', 'phone')).rejects.toThrow('--kind must be one of laptop, server, cluster');
  });
});

describe('init in a terminal', () => {
  it('asks, and takes what it proposes on Enter', async () => {
    const screen = await answer('', '', '');
    expect(screen).toContain('1  laptop: this computer, for one person');
    expect(screen).toContain('Port [8080]');
    expect(screen).toContain('Wrote');
    expect(written().port).toBe(8080);
  });

  it('asks again after an answer that cannot be right', async () => {
    const certificate = [join(TLS, 'first.crt'), join(TLS, 'first.key')];
    await answer('5', 'server', 'http', '8443', 'y', ...certificate, '', 'baobab/chat-mini');
    expect(written()).toMatchObject({ port: 8443, tls: { key: join(TLS, 'first.key') } });
  });

  it('asks before it replaces a file, and writes nothing when it is stopped', async () => {
    writeFileSync(file, 'port: 1234\n');
    await expect(answer('n')).rejects.toThrow('stays as it is');
    await expect(answer('y', '2')).rejects.toThrow('nothing was written');
    expect(readFileSync(file, 'utf8')).toBe('port: 1234\n');
    expect(await answer('y', 'laptop', '9001', '')).toContain('Wrote');
    expect(written().port).toBe(9001);
  });
});
