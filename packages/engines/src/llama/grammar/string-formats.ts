const YEAR = '[0-9]{4}';
/** Days 1 to 28 exist in every month; the longer ends are listed with the months that have them. */
const MONTH_DAY = [
  '("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | "1" [0-9] | "2" [0-8])',
  '("0" [13-9] | "1" [0-2]) "-" ("29" | "30")',
  '("0" [13578] | "1" [02]) "-31"',
].join(' | ');
const DATE = `${YEAR} "-" (${MONTH_DAY})`;
const CLOCK = '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,6})?';
const TIME = `${CLOCK} ("Z" | [-+] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])`;
const HEX = '[0-9a-f]';
const BYTE = '("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9]? [0-9])';
const LABEL = '[a-z0-9] ("-"? [a-z0-9]){0,30}';
const HOST = `${LABEL} ("." ${LABEL}){0,3} "." [a-z]{2,10}`;

/** GBNF expressions for the inside of a JSON string of each format that can be enforced. */
export const STRING_FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE} "T" ${TIME}`,
  uuid: `${HEX}{8} "-" ${HEX}{4} "-" [1-5] ${HEX}{3} "-" [89ab] ${HEX}{3} "-" ${HEX}{12}`,
  ipv4: `${BYTE} "." ${BYTE} "." ${BYTE} "." ${BYTE}`,
  email: `[a-zA-Z0-9] ([._+-]? [a-zA-Z0-9]){0,40} "@" ${HOST}`,
  hostname: HOST,
  uri: `"http" "s"? "://" ${HOST} ("/" [a-zA-Z0-9_.~%-]{0,60}){0,8}`,
};
