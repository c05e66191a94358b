// Uses an installation without a network: starts the server, and prints as JSON what a model answers.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

const [command, port] = process.argv.slice(2);
const KEY = 'first-key-without-a-network';
const address = `http://127.0.0.1:${port}`;
const outside = await fetch('http://192.0.2.1/').then(
  () => 'reached',
  (error) => error.cause?.code,
);
const server = spawn(command, ['serve', '--port', port], {
  env: { ...process.env, BAOBAB_FIRST_KEY: KEY },
  stdio: ['ignore', 'ignore', 'inherit'],
});
const exit = once(server, 'exit');
const isReady = () =>
  fetch(`${address}/readyz`)
    .then(({ ok }) => ok)
    .catch(() => false);
while (server.exitCode === null && !(await isReady())) await sleep(100);
const answer = await fetch(`${address}/v1/embeddings`, {
  method: 'POST',
  headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'baobab/embed-multilingual', input: 'Habari ya dunia' }),
});
const { data, error } = await answer.json();
server.kill();
const [code] = await exit;
process.stdout.write(JSON.stringify({ outside, dimensions: data?.[0].embedding.length, error, code }));
