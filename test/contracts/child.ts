import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** Runs a script beside this file and kills it with `kill -9` soon after the line that `isEnough` names; gives all its lines. */
export async function runAndKill(
  script: string,
  args: string[],
  isEnough: (line: string) => boolean | Promise<boolean>,
): Promise<string[]> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const child = spawn(process.execPath, [path, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const lines: string[] = [];
  let killing = false;
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line);
      if (killing || !(await isEnough(line))) continue;
      killing = true;
      // At any moment of the work that is going on, not only just after an acknowledgement.
      setTimeout(() => child.kill('SIGKILL'), Math.random() * 12);
    }
  } catch (error) {
    // A test that fails must not leave behind what keeps the whole run from ending.
    child.kill('SIGKILL');
    throw error;
  }
  const [code, signal] = await exited;
  if (signal !== 'SIGKILL') throw new Error(`${script} ended by itself with ${code}`);
  return lines;
}
