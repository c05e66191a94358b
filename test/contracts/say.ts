/** Resolves when the line was handed to the pipe. Lines still in this process would be lost with it. */
export const say = (line: string): Promise<void> =>
  new Promise((resolve) => process.stdout.write(`${line}\n`, () => resolve()));
