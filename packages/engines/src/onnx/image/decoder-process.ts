/**
 * The process that decodes the images of one engine process, one after the other. Images come on standard input, each after its length;
 * answers go to standard output. It may open no file.
 */
import { readInput, runSandboxed, Unusable, writeOutput } from '@baobab/core/sandbox/sandboxed-program.ts';
import { sealProcess } from '../../seccomp/seal.ts';
import { createImageDecoder, type ImageFailure } from './decoder.ts';
import { ANSWER_HEAD_BYTES, DECODED, type ImageDecoderArguments, LENGTH_BYTES, REFUSED } from './protocol.ts';

async function run({ preparation }: ImageDecoderArguments): Promise<void> {
  const decode = createImageDecoder(preparation);
  for (;;) {
    const image = readImage();
    if (image === undefined) return;
    try {
      const { buffer, byteOffset, byteLength } = await decode(image);
      answer(DECODED, Buffer.from(buffer, byteOffset, byteLength));
    } catch (error) {
      if (!(error instanceof Unusable)) throw error;
      answer(REFUSED, Buffer.from(JSON.stringify(error.failure satisfies ImageFailure)));
    }
  }
}

/** Undefined at the end of the input. */
function readImage(): Buffer | undefined {
  const head = Buffer.alloc(LENGTH_BYTES);
  if (readInput(head) < LENGTH_BYTES) return undefined;
  const image = Buffer.alloc(head.readUInt32LE());
  return readInput(image) < image.length ? undefined : image;
}

function answer(kind: number, body: Buffer): void {
  const head = Buffer.alloc(ANSWER_HEAD_BYTES);
  head.writeUInt32LE(body.length);
  head.writeUInt8(kind, LENGTH_BYTES);
  writeOutput(head);
  writeOutput(body);
}

await runSandboxed(run, sealProcess);
