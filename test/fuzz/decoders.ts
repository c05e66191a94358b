/** Gives damaged files to the decoders of audio, images and PDFs, as the server does. */
import { readFileSync } from 'node:fs';
import { mkdtempDisposable, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import sharp from 'sharp';
import { ApiError } from '../../packages/core/src/errors/api-error.ts';
import { decodeAudio } from '../../packages/engines/src/audio/reader.ts';
import { readPdfText } from '../../packages/engines/src/documents/pdf-reader.ts';
import { createImageReader, type ImageReader } from '../../packages/engines/src/onnx/image/image-reader.ts';
import { readPreparation } from '../../packages/engines/src/onnx/image/preparation.ts';
import { sealOf } from '../../packages/engines/src/seccomp/testing/seal-of.ts';
import { imagePdf, longPdf, textPdf } from '../fixtures/pdf.ts';
import { mutated, randomOf } from './mutations.ts';

interface Kind {
  name: string;
  files: readonly Buffer[];
  /** What becomes of a file. Throws an `ApiError` for one that is refused. */
  decode(file: Buffer): Promise<unknown>;
  /** Files of each round; one by default. */
  filesPerRound?: number;
  /** The program that decodes it, if it must be gone afterwards. */
  program?: string;
}

export interface DecoderFuzzOptions {
  seed: number;
  /** Stops when both are reached. */
  seconds: number;
  roundsPerKind: number;
  /** Only these kinds. */
  only?: string | undefined;
  onFinding(finding: DecoderFinding): Promise<void>;
}

export interface DecoderFinding {
  kind: string;
  /** Gives the same file again, with the seed. */
  number: number;
  problem: string;
  file: Buffer;
}

export interface DecoderFuzzReport {
  /** Decoded and refused files of each kind. */
  counts: Record<string, { decoded: number; refused: number }>;
  findings: number;
  /** How much more memory this process holds than after the first round. */
  grownBytes: number;
}

const AUDIO: Record<string, readonly string[]> = {
  wav: ['apples.wav', 'apples.8000-mulaw.wav'],
  flac: ['apples.flac'],
  mp3: ['apples.mp3', 'apples.stereo-44100.mp3'],
  vorbis: ['apples.vorbis.ogg', 'apples.vorbis.webm'],
  opus: ['apples.opus.ogg', 'apples.opus.webm'],
  aac: ['apples.m4a', 'apples.fragmented.m4a'],
};
const CLIPS = join(import.meta.dirname, '../fixtures/audio');
const { signal } = new AbortController();

async function audioKinds(folder: string): Promise<Kind[]> {
  let files = 0;
  return Object.entries(AUDIO).map(([name, clips]) => ({
    name,
    files: clips.map((clip) => readFileSync(join(CLIPS, clip))),
    program: 'audio/decoder-process.ts',
    async decode(file) {
      const path = join(folder, String(++files));
      await writeFile(path, file);
      try {
        for await (const samples of decodeAudio(path, { signal })) {
          if (!samples.every(Number.isFinite)) throw new Error('a sample is not a number');
        }
      } finally {
        await rm(path);
      }
    },
  }));
}

const EDGE = 64;
/** No process is started for them. */
const IMAGES_PER_ROUND = 20;
const preparation = readPreparation({ size: { shortest_edge: EDGE }, crop_size: EDGE });

async function imageKinds(reader: ImageReader): Promise<Kind[]> {
  const noise = randomOf(1);
  const pixels = Buffer.from(Array.from({ length: 90 * 120 * 4 }, () => Math.floor(noise() * 256)));
  const image = () => sharp(pixels, { raw: { width: 90, height: 120, channels: 4 } });
  const kinds = {
    png: [image().png(), image().png({ progressive: true }), image().removeAlpha().png({ palette: true })],
    jpeg: [image().jpeg(), image().withMetadata({ orientation: 6 }).jpeg({ progressive: true })],
    webp: [image().webp(), image().webp({ lossless: true })],
    gif: [image().gif()],
  };
  return Promise.all(
    Object.entries(kinds).map(async ([name, images]) => ({
      name,
      files: await Promise.all(images.map((each) => each.toBuffer())),
      filesPerRound: IMAGES_PER_ROUND,
      async decode(file: Buffer) {
        const floats = await reader.decode(`data:image/png;base64,${file.toString('base64')}`, ['image']);
        if (floats.length !== 3 * EDGE * EDGE) throw new Error(`${floats.length} pixels`);
        if (!floats.every(Number.isFinite)) throw new Error('a pixel is not a number');
      },
    })),
  );
}

const pdf: Kind = {
  name: 'pdf',
  files: [textPdf('Once upon a time', 'there was a tree.'), longPdf(20), imagePdf()],
  program: 'documents/reader-process.ts',
  async decode(file) {
    const found = await readPdfText({ base64: file.toString('base64') }, { signal });
    if ('failure' in found) throw new ApiError('validation_failed', found.failure.reason);
  },
};

export async function fuzzDecoders(options: DecoderFuzzOptions): Promise<DecoderFuzzReport> {
  const { seed, seconds, roundsPerKind, only, onFinding } = options;
  await using folder = await mkdtempDisposable(join(tmpdir(), 'baobab-fuzz-decoders-'));
  await using reader = createImageReader(preparation);
  const all = [...(await audioKinds(folder.path)), ...(await imageKinds(reader)), pdf];
  const kinds = all.filter(({ name }) => only === undefined || only.split(',').includes(name));
  const counts: DecoderFuzzReport['counts'] = {};
  let findings = 0;

  async function check(kind: Kind, number: number): Promise<void> {
    const random = randomOf(seed ^ Math.imul(number + 1, 0x9e3779b1));
    const pick = () => kind.files[Math.floor(random() * kind.files.length)] ?? Buffer.alloc(0);
    const file = mutated(pick(), pick(), random);
    const count = counts[kind.name] ?? { decoded: 0, refused: 0 };
    counts[kind.name] = count;
    const report = (problem: string) => {
      findings += 1;
      return onFinding({ kind: kind.name, number, problem, file });
    };
    try {
      await kind.decode(file);
      count.decoded += 1;
    } catch (error) {
      count.refused += 1;
      if (!(error instanceof ApiError)) await report(String(error));
    }
    if (kind.program !== undefined && process.platform === 'linux' && sealOf(kind.program).length > 0) {
      await report('its process is still there');
    }
  }

  const end = performance.now() + seconds * 1000;
  let bytesThen: number | undefined;
  for (let round = 0; round < roundsPerKind || performance.now() < end; round++) {
    for (const kind of kinds) {
      const { filesPerRound = 1 } = kind;
      for (let file = 0; file < filesPerRound; file++) await check(kind, round * filesPerRound + file);
    }
    bytesThen ??= heldBytes();
  }
  return { counts, findings, grownBytes: heldBytes() - (bytesThen ?? 0) };
}

/** Memory that is still in use after all garbage is collected. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
