/** The one logger shape, as pino writes it. Take `Pick<Logger, 'warn'>` where few levels are used. */
export interface Logger {
  debug(facts: object, text: string): void;
  info(facts: object, text: string): void;
  warn(facts: object, text: string): void;
  error(facts: object, text: string): void;
}
