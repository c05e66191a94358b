/**
 * Minimal HTTP for load generators and fake upstreams: prepared bytes, answers counted but not parsed. Two virtual cores are often
 * halves of one physical core, so work on the other side slows the server under test.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

const HEAD_END = '\r\n\r\n';

/** Length of the first message in a text, head and body. Undefined while the head is incomplete. */
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

/** Calls back once per complete answer with status 200, and with an error for any other answer. */
function countAnswers(onAnswer: () => void, onWrong: (error: Error) => void): (chunk: Buffer) => void {
  let head = '';
  let missingBytes = 0;
  return (chunk) => {
    if (missingBytes > 0) {
      missingBytes -= chunk.length;
    } else {
      // One character per byte, so lengths match.
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

/** Shared by all answers, to create little garbage. Each is read before the next arrives. */
const shared = Buffer.alloc(65_536);

/** Calls back once per answer. A failed one closes the connection with an error. */
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
