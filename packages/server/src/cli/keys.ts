import { usdNumber, usdText } from '@baobab/core/domain/money.ts';
import { isOperator } from '@baobab/core/domain/operations.ts';
import { type Account, type ApiKey, definedFields } from '@baobab/core/domain/principal.ts';
import { type LimitRules, NO_LIMITS } from '@baobab/core/domain/rate-limits.ts';
import { INFERENCE_SCOPES, SCOPES, type Scope } from '@baobab/core/domain/scopes.ts';
import { matchesPattern } from '@baobab/core/domain/slug.ts';
import { isoTimeOrNull } from '@baobab/core/domain/time/dates.ts';
import { openAdministration } from '../compose/administration.ts';
import { allUpstreams } from '../compose/storage.ts';
import { keyToWire } from '../compose/wire-shapes.ts';
import { DEFAULT_ACCOUNT, requireAccount, warnWithoutOperator } from './accounts.ts';
import { nothing, one, readAction, withOptions } from './actions.ts';
import { type Command, CommandFailed, UsageError } from './command.ts';
import { durationOption, parseOptions } from './options.ts';
import { defaultsText, KEY_OPTIONS, keyChangesText, keyLimitsText, LIMIT_HELP, rightsFrom } from './rights.ts';
import { openForReading } from './store-for-reading.ts';
import { minuteText, table } from './table.ts';

/** A remark for each pattern that matches no model. It may be for models to come, so this is not an error. */
const unmatchedPatterns = (patterns: readonly string[], slugs: readonly string[]): string[] =>
  patterns
    .filter((pattern) => !slugs.some((slug) => matchesPattern(slug, pattern)))
    .map((pattern) => `warning: no model matches '${pattern}' yet; 'baobab models list' shows what there is`);

function stateOf(key: ApiKey, now: number): string {
  if (key.revokedAt !== null) return 'revoked';
  if (key.expiresAt === null) return 'active';
  return key.expiresAt <= now ? 'expired' : `until ${minuteText(key.expiresAt)}`;
}

/** With the names that `--scopes` accepts for several of them. */
function scopesText(scopes: readonly Scope[]): string {
  if (scopes.length === SCOPES.length) return 'all';
  if (!INFERENCE_SCOPES.every((scope) => scopes.includes(scope))) return scopes.join(',');
  const others = scopes.filter((scope) => !INFERENCE_SCOPES.some((each) => each === scope));
  return ['inference', ...others].join(',');
}

interface KeyTableOptions {
  owners: ReadonlyMap<string, Account>;
  rules: LimitRules;
  /** Nano-USD of this calendar month, UTC. */
  spentBy?: ((key: ApiKey) => bigint) | undefined;
}

function keyTable(keys: readonly ApiKey[], { owners, rules, spentBy }: KeyTableOptions): string {
  const rotated = new Set(keys.filter(({ id, originalId }) => originalId !== id).map(({ originalId }) => originalId));
  const spentText = (key: ApiKey, spent: bigint) =>
    `$${usdText(spent)}${rotated.has(key.originalId) ? ' (shared)' : ''}`;
  const rows = keys.map((key) => [
    key.id,
    `${key.prefix}…`,
    key.name,
    owners.get(key.accountId)?.name ?? key.accountId,
    stateOf(key, Date.now()),
    key.lastUsedAt === null ? 'never' : minuteText(key.lastUsedAt),
    keyLimitsText(key, owners.get(key.accountId) ?? NO_LIMITS, rules),
    ...(spentBy === undefined ? [] : [spentText(key, spentBy(key))]),
    key.allowedModels.join(',') || '-',
    scopesText(key.scopes),
  ]);
  const spent = spentBy === undefined ? [] : ['SPENT THIS MONTH'];
  const headings = ['ID', 'KEY', 'NAME', 'ACCOUNT', 'STATE', 'LAST USED', 'LIMITS', ...spent, 'MODELS', 'SCOPES'];
  const note =
    spentBy !== undefined && rotated.size > 0
      ? '\nshared: a rotated key and those that replaced it have the same limits and spending'
      : '';
  return `${table(headings, rows)}\n\n${defaultsText(rules)}${note}`;
}

const ACTIONS = {
  create: withOptions(one('a name'), 'account', ...Object.keys(KEY_OPTIONS)),
  list: withOptions(nothing, 'account', 'search'),
  update: withOptions(one('an id'), 'name', ...Object.keys(KEY_OPTIONS)),
  revoke: withOptions(one('an id')),
  rotate: withOptions(one('an id'), 'grace'),
};

export const keysCommand: Command = {
  forms: [
    ['create <name> [options]', 'create a key; its secret is shown once'],
    ['list [--account NAME] [--search TEXT]', 'keys with their limits and what they spent this month'],
    ['update <id> [options]', "change the settings that are given; 'none' removes a limit"],
    ['revoke <id>', 'refuse the key within a second; cannot be undone'],
    [
      'rotate <id> [--grace 24h]',
      'issue a new secret; the old one is valid for the grace period, at most 24h, unless its --expires is changed later',
    ],
  ],
  options: [
    ['--account NAME', "create: who owns the key, by default the account 'default'; list: only its keys"],
    ['--search TEXT', 'list: only those with this part of the name or of the start of the key, or this id'],
    ['--name NAME', 'update: the new name'],
    [
      '--scopes LIST',
      `${SCOPES.join(', ')}; inference is the first four, all is every scope. Default: all but prompts, keys and admin`,
    ],
    ['--models LIST', 'models it may use, such as "baobab/*,qwen/qwen3-8b"; default: all'],
    ['--regions LIST', 'regions it may use; default: all'],
    ['--addresses LIST', 'where it may be used from, such as 10.0.0.0/8,2001:db8::/32; default: anywhere'],
    ...LIMIT_HELP,
    ['--priority low|interactive', 'low: its requests give way to others under load; default: interactive'],
    [
      '--dialect openai|specification',
      "openai: as OpenAI answers where the specification differs; none: the account's",
    ],
    [
      '--truncate-inputs end|start|none|default',
      'cut this side of inputs of embeddings and rerank that are too long; none: refuse them; default: as the account says',
    ],
    ['--expires TIME', 'such as 2027-01-31 or 2027-01-31T12:00:00Z; default: never'],
    ['--json', 'print JSON'],
  ],
  async run(context) {
    const { args, config, print } = context;
    const { values, positionals } = parseOptions(args, {
      ...KEY_OPTIONS,
      account: { type: 'string' },
      search: { type: 'string' },
      name: { type: 'string' },
      grace: { type: 'string' },
      json: { type: 'boolean' },
    });
    const { action, following } = readAction('keys', ACTIONS, { values, positionals });
    const [subject = ''] = following;
    const rights = rightsFrom(values);
    await using administration = await (action === 'list' ? openForReading(context) : openAdministration(config));
    const { accounts, keys, spending, by } = administration;

    function known<T>(found: T | undefined): T {
      if (found === undefined) throw new CommandFailed(`there is no key '${subject}'; 'baobab keys list' shows them`);
      return found;
    }
    const rules = await administration.limitRules();
    const ownerOf = async (key: ApiKey) => (await accounts.ofKeys([key])).get(key.accountId) ?? NO_LIMITS;
    const toWire = async (key: ApiKey) => keyToWire({ key, account: await ownerOf(key) }, rules);
    const printSecret = async (key: ApiKey, secret: string, text: string) => {
      if (values.json) print(JSON.stringify({ ...(await toWire(key)), secret }));
      else {
        const limits = `limits: ${keyLimitsText(key, await ownerOf(key), rules)}\n${defaultsText(rules)}`;
        print(`${text}\n${limits}\n\n    ${secret}\n\nStore it now: it is not shown again.`);
      }
    };

    const warnOfUnmatched = async () => {
      const served = new Set([config.region, ...allUpstreams(config).map(({ region }) => region ?? config.region)]);
      for (const region of (rights.allowedRegions ?? []).filter((each) => !served.has(each))) {
        context.warn?.(`warning: nothing is served in the region '${region}' yet; regions: ${[...served].join(', ')}`);
      }
      const patterns = (rights.allowedModels ?? []).filter((each) => each.includes('*'));
      if (patterns.length === 0) return;
      const { entries } = await administration.openCatalog();
      const slugs = entries.map(({ slug }) => slug);
      for (const warning of unmatchedPatterns(patterns, slugs)) context.warn?.(warning);
    };

    if (action === 'create') {
      const owner = await requireAccount(accounts, values.account ?? DEFAULT_ACCOUNT);
      const issued = await keys.createKey(owner, { ...rights, name: subject }, by);
      await printSecret(issued.key, issued.secret, `created key ${issued.key.id} (${issued.key.scopes.join(', ')})`);
      await warnOfUnmatched();
    } else if (action === 'list') {
      const owner = values.account === undefined ? undefined : await requireAccount(accounts, values.account);
      const found = await keys.listKeys(owner?.id, values.search);
      const spent = await spending.ofKeys(found);
      const spentBy = (key: ApiKey) => spent.get(key.id) ?? 0n;
      if (values.json) {
        const owners = await accounts.ofKeys(found);
        const describe = (key: ApiKey) => ({
          ...keyToWire({ key, account: owners.get(key.accountId) ?? NO_LIMITS }, rules),
          spent_usd: usdNumber(spentBy(key)),
        });
        print(JSON.stringify(found.map(describe)));
      } else if (found.length === 0) {
        print(values.search === undefined ? `no keys in ${config.dataDir}` : `no key matches '${values.search}'`);
      } else print(keyTable(found, { owners: await accounts.ofKeys(found), rules, spentBy }));
    } else if (action === 'update') {
      const changes = definedFields({ ...rights, name: values.name });
      if (Object.keys(changes).length === 0) throw new UsageError('nothing to change was given; try --rpm 60');
      const key = known(await keys.updateKey(subject, changes, by));
      const owners = await accounts.ofKeys([key]);
      const changed = [
        keyTable([key], { owners, rules }),
        keyChangesText({ ...rights, name: values.name }, key),
      ].filter((text) => text !== '');
      print(values.json ? JSON.stringify(await toWire(key)) : changed.join('\n\n'));
      await warnOfUnmatched();
    } else if (action === 'revoke') {
      const key = known(await keys.revokeKey(subject, by));
      print(values.json ? JSON.stringify(await toWire(key)) : `revoked ${key.id}`);
      if (isOperator(key)) await warnWithoutOperator(administration, context.warn);
    } else {
      const rotated = known(
        await keys.rotateKey(subject, { graceMs: durationOption('grace', values.grace ?? '24h') ?? 0 }, by),
      );
      const { revokedAt, expiresAt } = rotated.previous;
      const old = revokedAt === null ? `is valid until ${isoTimeOrNull(expiresAt)}` : 'was revoked';
      await printSecret(rotated.key, rotated.secret, `created key ${rotated.key.id}; the old one ${old}`);
    }
  },
};
