/**
 * The resolution of a PNG, which a canvas does not write: with it, a figure is as wide on paper as was asked for.
 *
 * The chunk pHYs (pixels per metre across and down, then the unit) stands between the header, which always has the same
 * length, and the pixels.
 */

const INCH = 0.0254;
// The signature, and the chunk IHDR.
const HEAD = 8 + 25;

/** The CRC-32 of a chunk, as PNG has it. */
function crcOf(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/** The chunk pHYs, with its length before it and its CRC behind. */
export function resolutionOf(dpi: number): Uint8Array<ArrayBuffer> {
  const chunk = new Uint8Array(4 + 4 + 9 + 4);
  const view = new DataView(chunk.buffer);
  view.setUint32(0, 9);
  chunk.set(new TextEncoder().encode("pHYs"), 4);
  const perMetre = Math.round(dpi / INCH);
  view.setUint32(8, perMetre);
  view.setUint32(12, perMetre);
  view.setUint8(16, 1);
  view.setUint32(17, crcOf(chunk.subarray(4, 17)));
  return chunk;
}

/** A PNG of a canvas, with its resolution. */
export function withResolution(png: Blob, dpi: number): Blob {
  return new Blob([png.slice(0, HEAD), resolutionOf(dpi), png.slice(HEAD)], { type: png.type });
}
