/** Shorter ones are placeholders such as `none` or `EMPTY`, and would hide ordinary words. */
const SHORTEST_SECRET = 6;
const HIDDEN = '[hidden]';

/** The ways in which another program may repeat a secret. */
const formsOf = (secret: string): string[] => [
  secret,
  JSON.stringify(secret).slice(1, -1),
  encodeURIComponent(secret),
  Buffer.from(secret, 'utf8').toString('base64'),
];

/** Returns a function that hides the secrets in a text. */
export function createSecretScrubber(secrets: Iterable<string | undefined>): (text: string) => string {
  const known = [...secrets].filter((secret) => secret !== undefined && secret.length >= SHORTEST_SECRET) as string[];
  // Long ones first: one secret may be part of another.
  const forms = [...new Set(known.flatMap(formsOf))].sort((a, b) => b.length - a.length);
  return (text) => forms.reduce((clean, form) => clean.replaceAll(form, HIDDEN), text);
}
