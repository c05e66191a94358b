/** The language, or English if it is not a language tag, such as the `en-US@posix` of a Chromium without a system locale. */
export function languageTag(language: string): string {
  try {
    return Intl.getCanonicalLocales(language)[0] ?? 'en-US';
  } catch {
    return 'en-US';
  }
}

// uPlot formats numbers in this language as soon as it is loaded, and fails on one that is not a tag.
if (languageTag(navigator.language) !== navigator.language) {
  Object.defineProperty(navigator, 'language', { value: languageTag(navigator.language), configurable: true });
}
