import { spawn } from 'node:child_process';
import { once } from 'node:events';

const START_TIMEOUT_MS = 300_000;

export interface Service extends AsyncDisposable {
  /** Fails unless the answer has a status of 2xx. */
  request(path: string, init?: RequestInit): Promise<Response>;
  post(path: string, body: object): Promise<Response>;
  headers: Record<string, string>;
}

/** Starts a program that serves, and waits until it answers at `health`. */
export async function startService(
  command: readonly [string, ...string[]],
  { address, health, cwd, env }: { address: string; health: string; cwd: string; env: Record<string, string> },
): Promise<Service> {
  const [file, ...args] = command;
  const child = spawn(file, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-20_000);
    });
  const closed = once(child, 'close');
  const stop = async () => {
    child.kill('SIGTERM');
    const killing = setTimeout(() => child.kill('SIGKILL'), 10_000);
    await closed;
    clearTimeout(killing);
  };
  const deadline = Date.now() + START_TIMEOUT_MS;
  const isReady = () =>
    fetch(`${address}${health}`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isReady())) {
    if (Date.now() > deadline || child.exitCode !== null) {
      await stop();
      throw new Error(`${file} did not start\n${output.slice(-3000)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  const headers: Record<string, string> = {};
  const request = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`${address}${path}`, { ...init, headers: { ...headers, ...init.headers } });
    if (response.ok) return response;
    throw new Error(`${path}: ${response.status} ${(await response.text()).slice(0, 500)}\n${output.slice(-3000)}`);
  };
  return {
    headers,
    request,
    post: (path, body) =>
      request(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    [Symbol.asyncDispose]: stop,
  };
}

/** The text of a stream of chunks. */
export function streamedText(events: string): string {
  const data = [...events.matchAll(/^data: (\{.*)$/gm)].map(([, json = '']) => JSON.parse(json));
  return data.map((chunk) => chunk.choices?.[0]?.delta?.content ?? '').join('');
}
