import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type Command, CommandFailed, UsageError } from './command.ts';
import { parseOptions } from './options.ts';

const SUMS = 'SHA256SUMS';
const SIGNATURE = `${SUMS}.sig`;
/** As `sha256sum` writes it, of files beside it. */
const LINE = /^([0-9a-f]{64}) {2}([\w.+-]+)$/;

async function readKey(path: string): Promise<KeyObject> {
  const text = await readFile(path);
  try {
    const key = createPublicKey(text);
    if (key.asymmetricKeyType === 'ed25519') return key;
  } catch {
    // Said below.
  }
  throw new CommandFailed(`${path} is no public Ed25519 key in PEM`);
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

/** Returns the names of the files. Throws what is wrong: npm would install every file of the folder that it is told to. */
async function verifyRelease(folder: string, key: KeyObject): Promise<string[]> {
  const names = await readdir(folder);
  for (const needed of [SUMS, SIGNATURE]) {
    if (!names.includes(needed)) throw new CommandFailed(`${folder} has no ${needed}: it is no signed release`);
  }
  const sums = await readFile(join(folder, SUMS));
  if (!verify(null, sums, key, await readFile(join(folder, SIGNATURE)))) {
    throw new CommandFailed(`the signature of ${join(folder, SUMS)} is not by this key. Install nothing of it`);
  }
  const listed = new Map<string, string>();
  for (const line of sums.toString('utf8').trimEnd().split('\n')) {
    const [, hash, name] = LINE.exec(line) ?? [];
    if (hash === undefined || name === undefined) throw new CommandFailed(`${SUMS} has a line that is not understood`);
    listed.set(name, hash);
  }
  const problems = names
    .filter((name) => name !== SUMS && name !== SIGNATURE && !listed.has(name))
    .map((name) => `${name} is not part of the release`);
  for (const [name, hash] of listed) {
    if (!names.includes(name)) problems.push(`${name} is missing`);
    else if ((await hashOf(join(folder, name))) !== hash) problems.push(`${name} is damaged or was changed`);
  }
  if (problems.length > 0) throw new CommandFailed(problems.join('\n'));
  return [...listed.keys()];
}

export const verifyReleaseCommand: Command = {
  forms: [['<folder> --key <file>', 'check that every file in the folder is as it was released']],
  options: [
    ['--key <file>', 'the public key of whoever signed the release: Ed25519 in PEM, from a source that you trust'],
  ],
  async run({ args, print }) {
    const { values, positionals } = parseOptions(args, { key: { type: 'string' } });
    const [folder, ...more] = positionals;
    if (folder === undefined || more.length > 0) throw new UsageError('name the folder of the release');
    if (values.key === undefined)
      throw new UsageError('--key is required: the public key that the release must be signed with');
    const files = await verifyRelease(folder, await readKey(values.key));
    print(`${files.length} files are as they were signed`);
  },
};
