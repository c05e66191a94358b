/** Shorter ones are placeholders such as `none` or `EMPTY`, and would hide ordinary words. */
const SHORTEST_SECRET = 6;
export const HIDDEN = '[hidden]';

/** The ways in which another program may repeat a secret. */
const formsOf = (secret: string): string[] => [
  secret,
  JSON.stringify(secret).slice(1, -1),
  encodeURIComponent(secret),
  Buffer.from(secret, 'utf8').toString('base64'),
];

/** All forms of the secrets, long ones first: one secret may be part of another. */
export function secretForms(secrets: Iterable<string | undefined>): string[] {
  const known = [...secrets].filter((secret) => secret !== undefined && secret.length >= SHORTEST_SECRET) as string[];
  return [...new Set(known.flatMap(formsOf))].sort((a, b) => b.length - a.length);
}

export type Scrub = (text: string) => string;

/** Returns a function that hides the secrets in a text. */
export function createSecretScrubber(secrets: Iterable<string | undefined>): Scrub {
  const forms = secretForms(secrets);
  return (text) => forms.reduce((clean, form) => clean.replaceAll(form, HIDDEN), text);
}

/** Secrets of which more become known while the service runs. */
export interface KnownSecrets {
  add(secrets: Iterable<string>): void;
  readonly scrub: Scrub;
}

export function createKnownSecrets(secrets: Iterable<string>): KnownSecrets {
  const known = new Set(secrets);
  let scrub = createSecretScrubber(known);
  return {
    add(more) {
      for (const secret of more) known.add(secret);
      scrub = createSecretScrubber(known);
    },
    scrub: (text) => scrub(text),
  };
}
