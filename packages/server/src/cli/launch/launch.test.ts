import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../testing/run-command.ts';
import { launchCommand } from './launch.ts';
import { RECIPES } from './recipes.ts';

const PAGE = readFileSync(join(import.meta.dirname, '../../../../../docs/clients.md'), 'utf8');
const VALUES = {
  address: 'http://127.0.0.1:8080',
  model: 'qwen/qwen3-8b',
  contextLength: 32_768,
  maxOutputTokens: 8192,
};

const launch = async (...args: string[]) =>
  (await runCommand(launchCommand, { args, dataDir: '/nonexistent', env: { BAOBAB_API_KEY: 'a-secret-key' } })).printed;

describe('launch', () => {
  it('lists the clients', async () => {
    const printed = await launch();
    for (const [id, { name }] of Object.entries(RECIPES))
      expect(printed).toMatch(new RegExp(`^${id} +${name.replace(/[()]/g, '\\$&')} +(yes|-)$`, 'm'));
  });

  it('has the clients of docs/clients.md, but for one', () => {
    const page = readFileSync(join(import.meta.dirname, '../../../../../docs/clients.md'), 'utf8');
    const rows = [...(page.split('\n```console')[0]?.matchAll(/^\| (.+?) \| .+ \| .+ \| .+ \|$/gm) ?? [])].slice(1);
    const names = rows.map(([, name = '']) => /^\[(.+)\]/.exec(name)?.[1] ?? name);
    expect(names.filter((name) => !Object.values(RECIPES).some((recipe) => recipe.name === name))).toEqual([
      'openai (Python)',
    ]);
  });

  it.each(Object.keys(RECIPES))('prints the settings of %s without the key', async (id) => {
    const printed = await launch('--print', id);
    for (const { place, text } of RECIPES[id]?.parts(VALUES) ?? []) expect(printed).toContain(`# ${place}\n${text}`);
    expect(printed).not.toContain('a-secret-key');
  });

  it('takes the address of the settings, also of a server on every interface, or the one given', async () => {
    expect(await launch('--print', 'claude', '--port', '9000')).toContain('=http://127.0.0.1:9000\n');
    expect(await launch('--print', 'claude', '--host', '::')).toContain('=http://127.0.0.1:8080\n');
    expect(await launch('--print', 'claude', '--host', '::1')).toContain('=http://[::1]:8080\n');
    expect(await launch('--print', 'claude', '--address', 'https://ai.example.org/')).toContain(
      '=https://ai.example.org\n',
    );
  });

  it('says on standard error which model it has chosen', async () => {
    const run = (...args: string[]) => runCommand(launchCommand, { args, dataDir: '/nonexistent' });
    expect((await run('--print', 'pi')).warned).toContain('These settings are for qwen/qwen3-8b.');
    expect((await run('--print', 'pi', '--model', 'qwen/qwen3-8b')).warned).toBe('');
  });

  it('leaves room for a prompt where a model may fill its context with one answer', async () => {
    const printed = await launch('--print', 'copilot', '--model', 'huggingfacetb/smollm2-135m-instruct');
    expect(printed).toContain('COPILOT_PROVIDER_MAX_PROMPT_TOKENS=6144');
    expect(printed).toContain('COPILOT_PROVIDER_MAX_OUTPUT_TOKENS=2048');
  });

  it('says which clients and models there are', async () => {
    await expect(launch('--print', 'qwem')).rejects.toThrow("there are no settings for 'qwem'; did you mean 'qwen'?");
    await expect(launch('--print', 'pi', '--model', 'qwen3-8')).rejects.toThrow("did you mean 'qwen/qwen3-8b'?");
    await expect(launch('--print', 'pi', '--model', 'baobab/rerank-mini')).rejects.toThrow('there is no chat model');
    await expect(launch('pi')).rejects.toThrow("write 'baobab launch --print pi'");
    await expect(launch('--print')).rejects.toThrow('--print needs a client');
  });
});

describe('docs/clients.md', () => {
  it.each(Object.values(RECIPES))('has the settings of $name', ({ name, parts }) => {
    const section = PAGE.split(/^(?=#{2,3} )/m).find((each) => each.startsWith(`### ${name}\n`));
    expect(section, `no section '### ${name}'`).toBeDefined();
    for (const { place, language, text } of parts(VALUES)) {
      expect(section).toContain(`\`\`\`${language}\n${text}\n\`\`\``);
      if (/[./~→]/.test(place)) expect(section).toContain(place);
    }
  });

  it('has no recipe that is not printed', () => {
    const recipes = PAGE.split(/^## /m).filter((part) => /^(Agents|Applications|Libraries)\n/.test(part));
    const headings = recipes.flatMap((part) => [...part.matchAll(/^### (.+)$/gm)].map(([, name]) => name));
    expect(headings.toSorted()).toEqual(
      Object.values(RECIPES)
        .map(({ name }) => name)
        .toSorted(),
    );
  });
});
