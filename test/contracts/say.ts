/** Resolves when the line is on its way to the parent: what a slow one has no room for yet waits in this process, and dies with it. */
export const say = (line: string): Promise<void> =>
  new Promise((resolve) => process.stdout.write(`${line}\n`, () => resolve()));
