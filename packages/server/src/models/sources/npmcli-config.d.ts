/** The part of npm's own configuration loader that is used here; the package ships no types. */
declare module '@npmcli/config' {
  export default class Config {
    constructor(options: {
      definitions: unknown;
      shorthands: unknown;
      flatten: unknown;
      npmPath: string;
      env: Record<string, string | undefined>;
      argv: readonly string[];
      execPath: string;
      cwd: string;
      warn: boolean;
    });
    load(): Promise<void>;
    readonly flat: Record<string, unknown>;
  }
}

declare module '@npmcli/config/lib/definitions/index.js' {
  const definitions: { definitions: unknown; shorthands: unknown; flatten: unknown };
  export default definitions;
}
