import { FLACDecoder } from '@wasm-audio-decoders/flac';
import { OggVorbisDecoder } from '@wasm-audio-decoders/ogg-vorbis';
import { MPEGDecoder } from 'mpg123-decoder';
import { OpusDecoder } from 'opus-decoder';
import { createOggPages } from './ogg-pages.ts';

/** Decoded samples, one array for each channel. */
export interface Pcm {
  channelData: Float32Array[];
  sampleRate: number;
}

export interface PacketDecoder {
  decode(packet: Uint8Array, timestampSeconds: number): Promise<Pcm>;
  /** Returns what is buffered after the last packet. */
  flush?(): Promise<Pcm>;
}

export interface CodecConfig {
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

  async aac({ description }) {
    if (description === undefined) throw new Error('The AAC header is missing');
    const { decoder } = await import('@audio/decode-aac');
    const aac = await decoder({ asc: description });
    return { decode: async (packet) => aac.decode(packet) };
  },
};
