import { readFileSync } from 'node:fs';
import { Unusable } from '@baobab/core/sandbox/sandboxed-program.ts';
import { FLACDecoder } from '@wasm-audio-decoders/flac';
import { OggVorbisDecoder } from '@wasm-audio-decoders/ogg-vorbis';
import { MPEGDecoder } from 'mpg123-decoder';
import { OpusDecoder } from 'opus-decoder';
import type { DecodeFailure } from './protocol.ts';

/** Decoded samples, one array for each channel. */
export interface Pcm {
  channelData: Float32Array[];
  sampleRate: number;
}

interface PacketDecoder {
  decode(packet: Uint8Array, timestampSeconds: number): Promise<Pcm>;
  /** Returns what is buffered after the last packet. */
  flush?(): Promise<Pcm>;
}

interface CodecConfig {
  sampleRate: number;
  numberOfChannels: number;
  /** The codec's header from the container. */
  description: Uint8Array | undefined;
}

/** All decoders are WebAssembly: a hostile packet can break a decoder, but not reach outside its memory. */
export const CODECS: Readonly<Record<string, (config: CodecConfig) => Promise<PacketDecoder>>> = {
  async mp3() {
    const decoder = new MPEGDecoder();
    await decoder.ready;
    return { decode: async (packet) => decoder.decodeFrame(packet) };
  },

  async opus({ description, numberOfChannels }) {
    // Byte 18 of the Opus header is the channel mapping family. The table after it matters only for surround sound.
    const surround = description !== undefined && (description[18] ?? 0) > 0;
    const decoder = surround
      ? new OpusDecoder({
          channels: numberOfChannels,
          streamCount: description[19] ?? 1,
          coupledStreamCount: description[20] ?? 0,
          channelMappingTable: [...description.subarray(21, 21 + numberOfChannels)],
        })
      : new OpusDecoder({ channels: numberOfChannels });
    await decoder.ready;
    return { decode: async (packet) => decoder.decodeFrame(packet) };
  },

  async flac() {
    const decoder = new FLACDecoder();
    await decoder.ready;
    return { decode: (packet) => decoder.decodeFrames([packet]) };
  },

  async vorbis({ description, sampleRate }) {
    if (description === undefined) throw new Error('Vorbis headers are missing');
    const decoder = new OggVorbisDecoder();
    await decoder.ready;
    const pages = createOggPages();
    await decoder.decode(pages.headers(description));
    return {
      decode: (packet, timestamp) => decoder.decode(pages.page(packet, timestamp * sampleRate)),
      flush: () => decoder.flush(),
    };
  },

  async aac({ description, numberOfChannels }) {
    if (description === undefined) throw new Error('The AAC header is missing');
    let decoder = openAac(description, numberOfChannels);
    return {
      async decode(packet) {
        try {
          return decoder(packet);
        } catch (error) {
          // A packet that broke off in the middle left the decoder in no good state.
          if (error instanceof WebAssembly.RuntimeError) decoder = openAac(description, numberOfChannels);
          throw error;
        }
      },
    };
  },
};

/**
 * Wraps Vorbis packets in Ogg pages, because the Vorbis decoder accepts nothing else, while the demuxer yields packets of any
 * container. One packet per page. The decoder ignores the checksum, so it stays zero.
 */
const MAX_SEGMENT = 255;
const BEGIN_OF_STREAM = 2;

interface OggPages {
  /** The three header packets as WebM and MP4 store them: a count, the sizes of all but the last, the packets. */
  headers(codecPrivate: Uint8Array): Uint8Array;
  page(packet: Uint8Array, granulePosition: number): Uint8Array;
}

function createOggPages(): OggPages {
  let sequence = 0;

  const page = (packet: Uint8Array, granulePosition: number): Uint8Array => {
    const segments = Math.floor(packet.length / MAX_SEGMENT) + 1;
    if (segments > MAX_SEGMENT) throw new Error('A Vorbis packet is too large');
    const bytes = new Uint8Array(27 + segments + packet.length);
    const view = new DataView(bytes.buffer);
    bytes.set([0x4f, 0x67, 0x67, 0x53, 0, sequence === 0 ? BEGIN_OF_STREAM : 0]);
    view.setBigUint64(6, BigInt(Math.max(0, Math.round(granulePosition))), true);
    view.setUint32(14, 1, true);
    view.setUint32(18, sequence++, true);
    view.setUint8(26, segments);
    bytes.fill(MAX_SEGMENT, 27, 27 + segments - 1);
    bytes[27 + segments - 1] = packet.length % MAX_SEGMENT;
    bytes.set(packet, 27 + segments);
    return bytes;
  };

  return {
    page,
    headers(codecPrivate) {
      const packets = splitXiph(codecPrivate);
      if (packets.length !== 3) throw new Error('Vorbis headers are missing');
      const pages = packets.map((packet) => page(packet, 0));
      return Uint8Array.from(pages.flatMap((bytes) => [...bytes]));
    },
  };
}

function splitXiph(bytes: Uint8Array): Uint8Array[] {
  const count = (bytes[0] ?? 0) + 1;
  const sizes: number[] = [];
  let at = 1;
  while (sizes.length < count - 1 && at < bytes.length) {
    let size = 0;
    let part = MAX_SEGMENT;
    while (part === MAX_SEGMENT && at < bytes.length) {
      part = bytes[at++] ?? 0;
      size += part;
    }
    sizes.push(size);
  }
  const packets = sizes.map((size) => {
    const packet = bytes.subarray(at, at + size);
    at += size;
    return packet;
  });
  return [...packets, bytes.subarray(at)];
}

/** What aac/src/lib.rs exports. */
interface AacExports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  open(): number;
  decode(): number;
  channels(): number;
  sample_rate(): number;
  plane(channel: number): number;
}

const AAC_MODULE = new WebAssembly.Module(readFileSync(new URL('../../aac/aac.wasm', import.meta.url)));

/**
 * A decoder of AAC-LC, mono or stereo. Of HE-AAC it decodes the lower half of the frequencies, at half the sample rate: those above 8 kHz are
 * not needed.
 */
function openAac(config: Uint8Array, numberOfChannels: number): (packet: Uint8Array) => Pcm {
  const aac = new WebAssembly.Instance(AAC_MODULE).exports as unknown as AacExports;
  const send = (bytes: Uint8Array) => {
    const at = aac.input(bytes.length);
    new Uint8Array(aac.memory.buffer).set(bytes, at);
  };
  send(config);
  if (aac.open() < 0) {
    const codec = `aac with ${numberOfChannels} channels, or of another profile than LC and HE`;
    throw new Unusable<DecodeFailure>({ reason: 'unsupported-codec', codec });
  }
  return (packet) => {
    send(packet);
    const frames = aac.decode();
    if (frames < 0) throw new Error('The packet is damaged');
    const channelData = Array.from({ length: aac.channels() }, (_, channel) =>
      new Float32Array(aac.memory.buffer, aac.plane(channel), frames).slice(),
    );
    return { channelData, sampleRate: aac.sample_rate() };
  };
}
