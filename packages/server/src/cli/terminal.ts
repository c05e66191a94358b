import { createInterface } from 'node:readline';
import { styleText } from 'node:util';
import { printable } from '@baobab/core/domain/control-characters.ts';

/** Where a person types and reads. */
export interface Terminal {
  input: NodeJS.ReadableStream;
  output: NodeJS.WritableStream;
}

/** Undefined where either is a pipe or a file. */
export function terminalOf({
  stdin,
  stdout,
}: {
  stdin?: NodeJS.ReadableStream | undefined;
  stdout: NodeJS.WritableStream;
}) {
  const isTerminal = (stream: object | undefined) => stream !== undefined && 'isTTY' in stream && stream.isTTY === true;
  return stdin !== undefined && isTerminal(stdin) && isTerminal(stdout) ? { input: stdin, output: stdout } : undefined;
}

export function writeDim({ output }: Terminal, text: string): void {
  output.write(styleText('dim', printable(text), { stream: output }));
}

export interface LineOptions {
  prompt: string;
  /** Newest first. What is entered is added. */
  history?: string[];
  /** Ctrl-C. The line is discarded. */
  onInterrupt?(): void;
}

/** One entry with the keys of a shell; pasted lines are one entry. Undefined: Ctrl-D. */
export function readEntry(terminal: Terminal, { prompt, history = [], onInterrupt }: LineOptions) {
  const reader = createInterface({ ...terminal, terminal: true, prompt, history });
  const lines: string[] = [];
  return new Promise<string | undefined>((resolve) => {
    reader.on('line', (line) => {
      lines.push(line);
      // The other lines of a paste come in the same turn.
      if (lines.length === 1) setImmediate(() => reader.close());
    });
    reader.on('history', (entries: string[]) => history.splice(0, history.length, ...entries));
    reader.on('SIGINT', () => {
      if (onInterrupt === undefined) {
        reader.close();
        return;
      }
      terminal.output.write('\n');
      onInterrupt();
      reader.write(null, { ctrl: true, name: 'e' });
      reader.write(null, { ctrl: true, name: 'u' });
      reader.prompt();
    });
    reader.once('close', () => {
      // The cursor is still behind the prompt.
      if (lines.length === 0) terminal.output.write('\n');
      resolve(lines.length === 0 ? undefined : [...lines, reader.line].join('\n').trimEnd());
    });
    reader.prompt();
  });
}
