import { stringify } from 'yaml';
import { isSecret } from '../config/secret-files.ts';
import { maskedConfig } from '../config/secrets.ts';
import { SETTINGS } from '../config/settings.ts';
import { type Command, UsageError } from './command.ts';
import { parseOptions } from './options.ts';

const at = (value: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((place, name) => (place as Record<string, unknown> | undefined)?.[name], value);

export const configCommand: Command = {
  forms: [
    ['', 'the configuration in use, as YAML, secrets masked'],
    ['--settings', 'every setting with its variable, option and default'],
  ],
  async run({ args, config, configFile, print }) {
    const { values: options, positionals } = parseOptions(args, { settings: { type: 'boolean' } });
    if (positionals.length > 0) throw new UsageError(`unexpected argument '${positionals.join(' ')}'`);
    if (options.settings) {
      for (const setting of SETTINGS) {
        const { description, default: fallback } = setting.schema as { description?: string; default?: unknown };
        const shown = fallback === undefined ? '' : ` (default ${JSON.stringify(fallback)})`;
        // Secrets are refused as flags.
        const flag = isSecret(setting.schema) ? '' : `  ${setting.flag}`;
        print(`${setting.key}\n    ${setting.variable}${flag}\n    ${description ?? ''}${shown}`);
      }
      return;
    }
    print(`# from ${configFile ?? 'defaults'}, the environment and flags`);
    const values: Record<string, unknown> = {};
    for (const [name] of Object.entries(config)) values[name] = at(config, [name]);
    print(stringify(maskedConfig(values)).trimEnd());
  },
};
