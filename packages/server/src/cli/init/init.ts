import { existsSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { createKeySecret } from '../../compose/administration.ts';
import { certificateFiles, checkNamedModels } from '../../compose/setting-checks.ts';
import { catalogEntries } from '../../compose/storage.ts';
import { loadConfig } from '../../config/load.ts';
import { SETTINGS } from '../../config/settings.ts';
import { type Command, type CommandContext, CommandFailed, UsageError } from '../command.ts';
import { parseOptions } from '../options.ts';
import { readEntry, type Terminal } from '../terminal.ts';
import { type Answers, KINDS, type Kind, type SecretFile, TEMPLATES, type Template } from './templates.ts';

const SECRETS_FOLDER = 'secrets';
/** Flags of settings that the templates have a place for. */
const WRITTEN = ['--port', '--public-url', '--region', '--blobs', '--tls-cert', '--tls-key'];

/** Asks until the answer is accepted. Enter takes what is in brackets. */
async function ask(terminal: Terminal, question: string, proposed: string, accepts = /^/): Promise<string> {
  for (;;) {
    const given = await readEntry(terminal, { prompt: `${question}${proposed === '' ? '' : ` [${proposed}]`}: ` });
    if (given === undefined) throw new CommandFailed("stopped; nothing was written. 'baobab init' asks again");
    const answer = given.trim() || proposed;
    if (accepts.test(answer)) return answer;
  }
}

async function askKind(terminal: Terminal): Promise<Kind> {
  const rows = KINDS.map((kind, index) => `  ${index + 1}  ${kind}: ${TEMPLATES[kind].summary}\n`);
  terminal.output.write(`Where will Baobab run?\n${rows.join('')}`);
  const answer = await ask(terminal, 'Number or name', '1', new RegExp(`^([1-${KINDS.length}]|${KINDS.join('|')})$`));
  return KINDS[Number(answer) - 1] ?? (answer as Kind);
}

const isYes = async (terminal: Terminal, question: string): Promise<boolean> =>
  (await ask(terminal, `${question} y or n`, 'n', /^(y|n|yes|no)$/i)).toLowerCase().startsWith('y');

/** The chat model for those who do not know one yet. */
function recommendedModel(entries: readonly ModelEntry[]): string {
  const chats = entries.filter(({ modality }) => modality === 'chat');
  const model = chats.find(({ starter, specialist }) => starter && !specialist) ?? chats[0];
  if (model === undefined)
    throw new CommandFailed("the catalog has no chat model; 'baobab models list --all' shows it");
  return model.slug;
}

type Asked = Omit<Answers, 'secret'>;

/** Settings that are given as flags are proposed. */
function proposal({ config }: CommandContext, model: string): Asked {
  const { port, tls, publicUrl, region, blobs } = config;
  return {
    port,
    region,
    model,
    publicUrl,
    tls:
      tls.cert === undefined || tls.key === undefined ? undefined : { cert: resolve(tls.cert), key: resolve(tls.key) },
    blobs: blobs ?? 's3://baobab',
  };
}

async function askAll(terminal: Terminal, { asks }: Template, proposed: Asked): Promise<Asked> {
  const answers = { ...proposed };
  answers.port = Number(await ask(terminal, 'Port', String(proposed.port), /^\d{1,5}$/));
  for (const name of asks) {
    if (name === 'model') answers.model = await ask(terminal, 'Chat model to load at start', proposed.model);
    else if (name === 'publicUrl') {
      const question = 'Address for people, such as https://ai.example.org (Enter: not yet known)';
      const url = await ask(terminal, question, proposed.publicUrl ?? '', /^(https?:\/\/[^/?#@\s]+)?$/);
      answers.publicUrl = url === '' ? undefined : url;
    } else if (name === 'region') answers.region = await ask(terminal, 'Region code', proposed.region);
    else if (name === 'blobs') answers.blobs = await ask(terminal, 'Bucket for files', proposed.blobs, /^s3:/);
    else if (!(await isYes(terminal, 'Has Baobab a certificate of its own? (Without one, a proxy ends HTTPS.)')))
      answers.tls = undefined;
    else {
      const cert = await ask(terminal, 'Certificate chain, PEM', proposed.tls?.cert ?? '', /./);
      answers.tls = {
        cert: resolve(cert),
        key: resolve(await ask(terminal, 'Its key, PEM', proposed.tls?.key ?? '', /./)),
      };
    }
  }
  return answers;
}

/** Leaves a file that is there. Returns whether it was made. */
async function writeSecret(path: string, { example }: SecretFile): Promise<boolean> {
  if (existsSync(path)) return false;
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFile(path, `${example ?? createKeySecret()}\n`, { mode: 0o600, flag: 'wx' });
  return true;
}

/** Under another name first: what the server would refuse never takes the place of a good file. */
async function writeChecked(file: string, text: string, entries: readonly ModelEntry[]): Promise<void> {
  const draft = `${file}.${process.pid}`;
  await writeFile(draft, text, { mode: 0o644 });
  try {
    const { config, locate } = loadConfig({ args: ['--config', draft], env: {}, workingDirectory: dirname(file) });
    await certificateFiles(config, locate);
    checkNamedModels(config, entries, locate);
    await rename(draft, file);
  } catch (error) {
    await rm(draft);
    if (error instanceof Error) error.message = error.message.replaceAll(draft, file);
    throw error;
  }
}

export const initCommand: Command = {
  forms: [['[file]', 'write the settings of a server; default: baobab.yaml in the working directory']],
  options: [
    [`--kind ${KINDS.join('|')}`, 'ask nothing; without a terminal the default is laptop'],
    ['--model SLUG', 'chat model to load at start'],
    ['--force', 'replace the file without asking'],
  ],
  notes: [
    'Settings that are given are written: --port, --public-url, --region, --blobs, --tls-cert with --tls-key; others belong into the file afterwards. Secrets go into files of their own in the folder secrets; those that are there stay.',
  ],
  async run(context) {
    const { values, positionals } = parseOptions(context.args, {
      kind: { type: 'string' },
      model: { type: 'string' },
      force: { type: 'boolean' },
    });
    const [given = 'baobab.yaml', ...more] = positionals;
    if (more.length > 0) throw new UsageError(`unexpected argument '${more.join(' ')}'`);
    const chosen = KINDS.find((kind) => kind === values.kind);
    if (values.kind !== undefined && chosen === undefined)
      throw new UsageError(`--kind must be one of ${KINDS.join(', ')}`);
    for (const { flag, path } of SETTINGS) {
      if (context.locate(path) !== flag || WRITTEN.includes(flag)) continue;
      throw new UsageError(`init does not write ${flag}: add it to the file afterwards`);
    }
    const terminal = chosen === undefined ? context.terminal : undefined;
    const file = resolve(given);
    if (existsSync(file) && !values.force) {
      const replaces =
        context.terminal !== undefined && (await isYes(context.terminal, `${file} is there already. Replace it?`));
      if (!replaces) throw new CommandFailed(`${file} stays as it is; --force replaces it`);
    }
    const kind = chosen ?? (terminal === undefined ? 'laptop' : await askKind(terminal));
    const template = TEMPLATES[kind];
    const entries = await catalogEntries(context.config);
    const proposed = proposal(context, values.model ?? recommendedModel(entries));
    const answers = terminal === undefined ? proposed : await askAll(terminal, template, proposed);
    const secret = (name: string) => join(dirname(file), SECRETS_FOLDER, name);
    const made: SecretFile[] = [];
    for (const each of template.secrets) if (await writeSecret(secret(each.name), each)) made.push(each);
    await writeChecked(file, template.write({ ...answers, secret }), entries);
    const shown = (path: string) => relative('', path) || path;
    context.print(`Wrote ${shown(file)}, for ${template.summary}.`);
    for (const { name, example } of made) {
      const what = example === undefined ? 'has the first key' : `needs the address of yours, instead of ${example}`;
      context.print(`${shown(secret(name))} ${what}.`);
    }
    const option = file === resolve('baobab.yaml') ? '' : ` --config ${shown(file)}`;
    context.print(`\nNext:\n\n    npx baobab serve${option}\n`);
  },
};
