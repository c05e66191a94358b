/** One thing that is tried with real tools. What it returns is printed behind its name. */
export interface Check {
  name: string;
  run(): Promise<string | undefined> | string | undefined;
}

/** Thrown by a check that cannot run here. Its message says what is missing. */
export class Skipped extends Error {}
