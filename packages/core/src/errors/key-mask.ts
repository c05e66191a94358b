/** API keys, also percent-encoded once or more, as in a path. */
const KEY = /bao(?:_|%(?:25)*5f)sk(?:_|%(?:25)*5f)(?:\w|%(?:25)*5f)+/gi;

/** Hides API keys wherever they are in a text, such as in a path or in an error of a library. */
export const maskKeys = (text: string): string =>
  /bao(?:_|%)/i.test(text) ? text.replace(KEY, 'bao_sk_[hidden]') : text;
