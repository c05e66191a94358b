/** One thing that is tried with real tools. What it returns is printed behind its name. */
export interface Check {
  name: string;
  run(): Promise<string | undefined> | string | undefined;
}

/** Thrown by a check that cannot run here. Its message says what is missing. */
export class Skipped extends Error {}

/** For checks that take several minutes. */
export function onlyOnDemand(): void {
  if (process.env.BAOBAB_DEPLOY_CHECKS !== 'all') {
    throw new Skipped('it takes minutes, and runs with BAOBAB_DEPLOY_CHECKS=all');
  }
}
