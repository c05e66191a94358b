import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadPipSettings, parsePipConfig } from './remote-sources.ts';

describe('pip settings', () => {
  let home: string;

  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'pip-'));
  });
  afterEach(() => rm(home, { recursive: true }));

  async function write(path: string, text: string): Promise<void> {
    await mkdir(dirname(join(home, path)), { recursive: true });
    await writeFile(join(home, path), text);
  }
  /** Hides the settings of the machine that the tests run on. */
  const isolated = () => ({ HOME: home, XDG_CONFIG_DIRS: home, PIP_CONFIG_FILE: join(home, 'named.conf') });

  it('uses the public index when nothing is set', async () => {
    const environment = { ...isolated(), PIP_CONFIG_FILE: '/dev/null' };
    expect(await loadPipSettings(environment)).toEqual({
      indexUrls: ['https://pypi.org/simple'],
      proxy: undefined,
      cert: undefined,
    });
  });

  it('reads index, further indexes, proxy and certificates from the user file', async () => {
    await write(
      '.config/pip/pip.conf',
      [
        '[global]',
        '# the mirror in our network',
        'index-url = https://one.example/simple',
        'extra-index-url =',
        '    https://two.example/simple',
        '    https://three.example/simple',
        'proxy: http://proxy.example:3128',
        'cert = /etc/own.pem',
        '[install]',
        'index-url = https://other.example',
      ].join('\n'),
    );
    expect(await loadPipSettings(isolated())).toMatchObject({
      indexUrls: ['https://one.example/simple', 'https://two.example/simple', 'https://three.example/simple'],
      proxy: 'http://proxy.example:3128',
      cert: '/etc/own.pem',
    });
  });

  it('prefers the named file to the user file, and variables to both', async () => {
    await write('.config/pip/pip.conf', '[global]\nindex-url = https://user.example\ncert = /user.pem\n');
    await write('named.conf', '[global]\nindex-url = https://named.example\n');
    expect(await loadPipSettings(isolated())).toMatchObject({
      indexUrls: ['https://named.example'],
      cert: '/user.pem',
    });
    const environment = { ...isolated(), PIP_INDEX_URL: 'https://variable.example' };
    expect(await loadPipSettings(environment)).toMatchObject({ indexUrls: ['https://variable.example'] });
  });

  it('lets the download section win over the global one', async () => {
    await write('named.conf', '[download]\nindex_url = https://b.example\n[global]\nindex-url = https://a.example\n');
    expect(await loadPipSettings(isolated())).toMatchObject({ indexUrls: ['https://b.example'] });
  });

  it('ignores lines that are no settings', () => {
    expect(parsePipConfig('nonsense\n[global]\n; comment\n  indented without a key\n')).toEqual(
      new Map([['global', new Map()]]),
    );
  });
});
