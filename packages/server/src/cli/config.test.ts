import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../config/load.ts';
import { isSecret } from '../config/secret-files.ts';
import { SETTINGS } from '../config/settings.ts';
import { configCommand } from './config.ts';

async function show(env: Record<string, string>, args: string[] = []): Promise<string> {
  const { config, file, locate } = loadConfig({ args: [], env, workingDirectory: '/' });
  const printed: string[] = [];
  await configCommand.run({ args, config, configFile: file, locate, env, print: (text) => printed.push(text) });
  return printed.join('\n');
}

it('prints the values in force as YAML that could be the file', async () => {
  const shown = parse(await show({ BAOBAB_PORT: '9000', BAOBAB_FILES_MAX_BYTES: '5' }));
  expect(shown).toMatchObject({ port: 9000, host: '127.0.0.1', files: { max_bytes: 5, retention_days: 30 } });
});

it('masks every secret, in lists and addresses too', async () => {
  const text = await show({
    BAOBAB_STORE: 'postgres://user:store-password@127.0.0.1/baobab',
    BAOBAB_FIRST_KEY: 'first-key-0123456789',
    BAOBAB_MODELS_HF_TOKEN: 'hf_token_value',
    BAOBAB_MODELS_HF_ENDPOINT: 'http://user:letmein@127.0.0.1:1',
    BAOBAB_UPSTREAMS: '[{"model":"a/b","url":"http://127.0.0.1:1/v1","api_key":"upstream-key"}]',
  });
  for (const secret of ['first-key', 'hf_token_value', 'upstream-key', 'letmein', 'store-password']) {
    expect(text).not.toContain(secret);
  }
  expect(parse(text)).toMatchObject({
    store: '********',
    first_key: '********',
    models: { hf_token: '********', hf_endpoint: 'http://********@127.0.0.1:1' },
    upstreams: [{ api_key: '********' }],
  });
});

it('lists every setting with its variable and its flag', async () => {
  const text = await show({}, ['--settings']);
  for (const { key, variable, flag, schema } of SETTINGS) {
    expect(text).toContain(`${key}\n    ${variable}${isSecret(schema) ? '' : `  ${flag}`}\n`);
  }
  expect(SETTINGS.filter(({ schema }) => !('description' in schema))).toEqual([]);
});
