/**
 * The decoder process: reads the audio file that is its standard input and writes mono 16 kHz samples to standard output.
 * It may open no other. The parent kills it when it takes too much time or memory.
 */
import { readInput, runSandboxed, Unusable, writeOutput } from '@baobab/core/sandbox/sandboxed-program.ts';
import {
  AudioSampleSink,
  CustomSource,
  EncodedPacketSink,
  FLAC,
  Input,
  type InputAudioTrack,
  MATROSKA,
  MP3,
  MP4,
  OGG,
  QTFF,
  WAVE,
  WEBM,
} from 'mediabunny';
import { sealProcess } from '../seccomp/seal.ts';
import { CODECS, type Pcm } from './codecs.ts';
import { CHUNK_SAMPLES, type DecodeFailure, type DecoderArguments, SAMPLE_RATE } from './protocol.ts';
import { createResampler, type Resampler } from './resampler.ts';

const MIN_RATE = 4_000;
const MAX_RATE = 384_000;
/** Damaged packets are skipped. With a larger share of them the file counts as corrupt. */
const MAX_DAMAGED_SHARE = 0.5;

async function run({ bytes, maxSeconds }: DecoderArguments): Promise<void> {
  const input = new Input({
    source: new CustomSource({
      getSize: () => bytes,
      read(start, end) {
        const piece = new Uint8Array(end - start);
        return piece.subarray(0, readInput(piece, start));
      },
      prefetchProfile: 'fileSystem',
    }),
    formats: [WAVE, MP3, FLAC, OGG, MP4, QTFF, WEBM, MATROSKA],
  });
  if (!(await input.canRead())) throw new Unusable<DecodeFailure>({ reason: 'unknown-format' });
  const track = await orCorrupt(() => input.getPrimaryAudioTrack());
  if (track === null) throw new Unusable<DecodeFailure>({ reason: 'no-audio' });

  const sink = createOutput(maxSeconds);
  for await (const pcm of pcmOf(track)) sink.write(pcm);
  sink.end();
}

async function* pcmOf(track: InputAudioTrack): AsyncGenerator<Pcm> {
  const codec = await orCorrupt(() => track.getCodec());
  if (codec?.startsWith('pcm-') || codec === 'ulaw' || codec === 'alaw') {
    yield* uncompressed(track);
    return;
  }
  const open = CODECS[codec ?? ''];
  if (open === undefined) throw new Unusable<DecodeFailure>({ reason: 'unsupported-codec', codec: codec ?? 'unknown' });
  const config = await orCorrupt(() => track.getDecoderConfig());
  if (config === null) throw new Unusable<DecodeFailure>({ reason: 'corrupt' });
  const decoder = await open({
    sampleRate: config.sampleRate,
    numberOfChannels: config.numberOfChannels,
    description: config.description === undefined ? undefined : toBytes(config.description),
  }).catch((cause) => {
    throw cause instanceof Unusable ? cause : new Unusable<DecodeFailure>({ reason: 'corrupt' }, cause);
  });

  let packets = 0;
  let damaged = 0;
  let damage: unknown;
  const iterator = new EncodedPacketSink(track).packets();
  for (;;) {
    const { value: packet, done } = await orCorrupt(() => iterator.next());
    if (done || packet === undefined) break;
    packets++;
    try {
      const pcm = await decoder.decode(packet.data, packet.timestamp);
      yield packet.timestamp < 0 ? withoutStart(pcm, -packet.timestamp) : pcm;
    } catch (error) {
      damaged++;
      damage = error;
    }
  }
  if (damaged > packets * MAX_DAMAGED_SHARE) throw new Unusable<DecodeFailure>({ reason: 'corrupt' }, damage);
  if (decoder.flush) yield await decoder.flush();
}

async function* uncompressed(track: InputAudioTrack): AsyncGenerator<Pcm> {
  const iterator = new AudioSampleSink(track).samples();
  for (;;) {
    const { value: sample, done } = await orCorrupt(() => iterator.next());
    if (done || sample === undefined) return;
    const channelData = Array.from({ length: sample.numberOfChannels }, (_, planeIndex) => {
      const plane = new Float32Array(sample.numberOfFrames);
      sample.copyTo(plane, { planeIndex, format: 'f32-planar' });
      return plane;
    });
    yield { channelData, sampleRate: sample.sampleRate };
    sample.close();
  }
}

/** Mixes to mono, resamples and writes whole chunks as fast as the parent reads. */
function createOutput(maxSeconds: number) {
  let resampler: Resampler | undefined;
  let rate = 0;
  let chunk = new Float32Array(CHUNK_SAMPLES);
  let filled = 0;
  let total = 0;

  const emit = () => {
    const bytes = Buffer.from(chunk.buffer, 0, filled * Float32Array.BYTES_PER_ELEMENT);
    chunk = new Float32Array(CHUNK_SAMPLES);
    filled = 0;
    writeOutput(bytes);
  };
  const add = (samples: Float32Array) => {
    total += samples.length;
    if (total > maxSeconds * SAMPLE_RATE)
      throw new Unusable<DecodeFailure>({ reason: 'too-long', limitSeconds: maxSeconds });
    for (let at = 0; at < samples.length; ) {
      const piece = samples.subarray(at, at + CHUNK_SAMPLES - filled);
      chunk.set(piece, filled);
      filled += piece.length;
      at += piece.length;
      if (filled === CHUNK_SAMPLES) emit();
    }
  };

  return {
    write({ channelData, sampleRate }: Pcm): void {
      if ((channelData[0]?.length ?? 0) === 0) return;
      if (!(sampleRate >= MIN_RATE && sampleRate <= MAX_RATE)) throw new Unusable<DecodeFailure>({ reason: 'corrupt' });
      if (resampler === undefined || sampleRate !== rate) {
        if (resampler) add(resampler.flush());
        resampler = createResampler(sampleRate, SAMPLE_RATE);
        rate = sampleRate;
      }
      add(resampler.push(toMono(channelData)));
    },
    end(): void {
      if (resampler) add(resampler.flush());
      if (total === 0) throw new Unusable<DecodeFailure>({ reason: 'no-audio' });
      if (filled > 0) emit();
    },
  };
}

function toMono(channels: readonly Float32Array[]): Float32Array {
  const [first = new Float32Array(0)] = channels;
  const mono = new Float32Array(first.length);
  for (const channel of channels)
    for (let i = 0; i < mono.length; i++) mono[i] = (mono[i] as number) + (channel[i] as number);
  for (let i = 0; i < mono.length; i++) {
    const value = (mono[i] as number) / channels.length;
    mono[i] = Number.isFinite(value) ? value : 0;
  }
  return mono;
}

/** Encoders mark the silence before the first sample with negative times. */
function withoutStart({ channelData, sampleRate }: Pcm, seconds: number): Pcm {
  const skipped = Math.round(seconds * sampleRate);
  return { channelData: channelData.map((channel) => channel.subarray(skipped)), sampleRate };
}

const toBytes = (source: ArrayBufferView | ArrayBufferLike) =>
  ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);

async function orCorrupt<T>(read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    throw new Unusable<DecodeFailure>({ reason: 'corrupt' }, cause);
  }
}

await runSandboxed(run, sealProcess);
