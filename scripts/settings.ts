/** Writes docs/settings.md from the schema of the configuration: `node scripts/settings.ts`. */
import { writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isSecret } from '../packages/server/src/config/secret-files.ts';
import { SETTINGS } from '../packages/server/src/config/settings.ts';

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll(homedir(), '~');

export function settingsPage(): string {
  const secrets = new Set(SETTINGS.filter(({ schema }) => isSecret(schema)).map(({ key }) => key));
  const rows = SETTINGS.filter(({ key }) => !secrets.has(key.replace(/_file$/, '')) || secrets.has(key)).map(
    ({ key, schema }) => {
      const { description = '', default: fallback } = schema as { description?: string; default?: unknown };
      const shown = fallback === undefined ? '' : `\`${cell(JSON.stringify(fallback))}\``;
      return `| \`${key}\` | ${shown} | ${cell(description)}${secrets.has(key) ? ' (secret)' : ''} |`;
    },
  );
  return `# Settings

Every setting of \`baobab.yaml\`, as \`npx baobab config --settings\` prints them. A key \`files.max_bytes\` is also the variable \`BAOBAB_FILES_MAX_BYTES\` and the flag
\`--files-max-bytes\`; secrets cannot be flags, and
\`<secret>_file\` names a file that contains one. [operating.md](operating.md#settings) explains the ones most people need. Written by \`node scripts/settings.ts\`. This shows
those in use:

\`\`\`sh
npx baobab config
\`\`\`

| key | default | |
|---|---|---|
${rows.join('\n')}
`;
}

if (import.meta.main) await writeFile(join(import.meta.dirname, '../docs/settings.md'), settingsPage());
