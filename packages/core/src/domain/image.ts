export interface ImageHead {
  mediaType: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';
  width: number;
  height: number;
}

/** The dimensions of almost every image are within these first bytes. Long metadata comes before those of a JPEG. */
export const IMAGE_HEAD_BYTES = 262_144;

/** Reads type and dimensions of a PNG, JPEG, GIF or WebP image from its first bytes. Undefined for anything else. */
export function readImageHead(bytes: Uint8Array): ImageHead | undefined {
  if (bytes.length < 26) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const first = view.getUint32(0);
  if (first === 0x89504e47) return { mediaType: 'image/png', width: view.getUint32(16), height: view.getUint32(20) };
  if (first === 0x47494638) {
    return { mediaType: 'image/gif', width: view.getUint16(6, true), height: view.getUint16(8, true) };
  }
  if (first >>> 8 === 0xffd8ff) return jpegHead(view);
  return first === 0x52494646 && view.getUint32(8) === 0x57454250 ? webpHead(view) : undefined;
}

function jpegHead(view: DataView): ImageHead | undefined {
  let at = 2;
  while (at + 9 < view.byteLength) {
    const marker = view.getUint16(at);
    // SOF0 to SOF15, except the tables with numbers among them.
    const isFrame = marker >= 0xffc0 && marker <= 0xffcf && marker !== 0xffc4 && marker !== 0xffc8 && marker !== 0xffcc;
    if (isFrame) return { mediaType: 'image/jpeg', width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
    if (marker < 0xff00) return undefined;
    // Fill bytes may precede a marker.
    at += marker === 0xffff ? 1 : 2 + view.getUint16(at + 2);
  }
  return undefined;
}

function webpHead(view: DataView): ImageHead | undefined {
  if (view.byteLength < 30) return undefined;
  const mediaType = 'image/webp';
  switch (view.getUint32(12)) {
    // VP8, lossy
    case 0x56503820:
      return { mediaType, width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
    // VP8L, lossless
    case 0x5650384c: {
      const bits = view.getUint32(21, true);
      return { mediaType, width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    // VP8X, with extras
    case 0x56503858: {
      const three = (at: number): number => view.getUint16(at, true) + (view.getUint8(at + 2) << 16) + 1;
      return { mediaType, width: three(24), height: three(27) };
    }
    default:
      return undefined;
  }
}

/** Models cut an image into patches of about this many pixels on each side, and give each one a token. */
const PATCH_PIXELS = 28;
const MIN_IMAGE_TOKENS = 256;
/** Larger images are scaled down by the models. */
export const MAX_IMAGE_TOKENS = 16_384;
/** Tokens of an image whose dimensions are not known. */
export const UNKNOWN_IMAGE_TOKENS = 1_536;

/** Used until the engine has counted. */
export function estimateImageTokens({ width, height }: Pick<ImageHead, 'width' | 'height'>): number {
  const patches = Math.ceil(width / PATCH_PIXELS) * Math.ceil(height / PATCH_PIXELS);
  return Math.min(Math.max(patches, MIN_IMAGE_TOKENS), MAX_IMAGE_TOKENS);
}
