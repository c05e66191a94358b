/**
 * As little HTTP as a load generator or a fake upstream needs: bytes made beforehand, answers counted and not read. Two cores are
 * often two halves of one, so that whatever the other side does takes from the speed of the server under test.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

const HEAD_END = '\r\n\r\n';

/** The length of the message that a text begins with, head and body; undefined while its head is not all there. */
export function messageBytes(text: string): number | undefined {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd === -1) return undefined;
  const bodyBytes = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0);
  return headEnd + HEAD_END.length + bodyBytes;
}

export function postBytes(url: URL, headers: Record<string, string>, body: string): Buffer {
  const head = Object.entries({ host: url.host, ...headers, 'content-length': String(Buffer.byteLength(body)) })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  return Buffer.from(`POST ${url.pathname} HTTP/1.1\r\n${head}\r\n${body}`);
}

/** Calls back once for each answer of status 200 that is there to its last byte, and with an error for any other one. */
function countAnswers(onAnswer: () => void, onWrong: (error: Error) => void): (chunk: Buffer) => void {
  let head = '';
  let missingBytes = 0;
  return (chunk) => {
    if (missingBytes > 0) {
      missingBytes -= chunk.length;
    } else {
      // One character for each byte, so that lengths agree.
      head += chunk.toString('latin1');
      const bytes = messageBytes(head);
      if (bytes === undefined) return;
      if (!head.startsWith('HTTP/1.1 200 ')) {
        onWrong(new Error(`unexpected answer: ${head.slice(0, 1_000)}`));
        return;
      }
      missingBytes = bytes - head.length;
      head = '';
    }
    if (missingBytes === 0) onAnswer();
    else if (missingBytes < 0) onWrong(new Error('an answer is longer than its head says'));
  };
}

/** Every answer is read from here before the next one comes: a client shall leave little garbage behind. */
const shared = Buffer.alloc(65_536);

/** Calls back once for each answer; one that is no success ends the connection with an error. */
export async function openConnection({ hostname, port }: URL, onAnswer: () => void): Promise<Socket> {
  const read = countAnswers(onAnswer, (error) => socket.destroy(error));
  const callback = (bytes: number): boolean => {
    read(shared.subarray(0, bytes));
    return true;
  };
  const socket = connect({ host: hostname, port: Number(port), noDelay: true, onread: { buffer: shared, callback } });
  await once(socket, 'connect');
  return socket;
}
