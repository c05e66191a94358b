let codes: Map<string, string> | undefined;

/** OpenAI answers with the name of the language (`english`), other servers with its code. */
export function languageCode(language: string | null | undefined): string | undefined {
  if (!language) return undefined;
  const given = language.toLowerCase();
  if (/^[a-z]{2}$/.test(given)) return given;
  codes ??= codesByName();
  return codes.get(given);
}

/** Intl maps codes to English names, but not back. */
function codesByName(): Map<string, string> {
  const names = new Intl.DisplayNames(['en'], { type: 'language', fallback: 'none' });
  const letters = [...'abcdefghijklmnopqrstuvwxyz'];
  const found = new Map<string, string>();
  for (const first of letters) {
    for (const second of letters) {
      const name = names.of(first + second)?.toLowerCase();
      if (name !== undefined && !found.has(name)) found.set(name, first + second);
    }
  }
  return found;
}
