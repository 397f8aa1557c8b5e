// The bar code of crates/media/src/barcode.rs. The benchmarks use this file, too.

/** Decodes the bar code; null if there is none. `bit(row, column)` returns whether the cell is white. */
globalThis.decodeBarcode = (bit) => {
  const sync = [1, 0, 1, 1, 0, 0, 0, 1];
  for (let row = 0; row < 2; row++)
    for (let column = 0; column < 8; column++)
      if (bit(row, column) !== (sync[column] ^ row)) return null;
  const bits = [];
  for (let row = 0; row < 2; row++) for (let column = 8; column < 64; column++) bits.push(bit(row, column));
  let body = 0n;
  for (const b of bits.slice(0, 96)) body = (body << 1n) | BigInt(b);
  let code = 0;
  for (const b of bits.slice(96)) code = (code << 1) | b;
  let crc = 0xffff;
  for (let at = 11; at >= 0; at--) {
    crc ^= Number((body >> BigInt(8 * at)) & 255n) << 8;
    for (let i = 0; i < 8; i++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  if (crc !== code) return null;
  return { frame: Number(body >> 64n), drawn: Number((body >> 16n) & 0xffffffffffffn), inputs: Number(body & 0xffffn) };
};

/** The number of the frame whose picture the page shows now, or null. */
globalThis.readBarcode = () => {
  const video = document.querySelector("#video");
  const width = video.videoWidth;
  const cell = width / 80;
  const canvas = (globalThis.barcodeCanvas ??= new OffscreenCanvas(1, 1));
  canvas.width = width;
  canvas.height = Math.ceil(cell * 2);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(video, 0, 0);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const bit = (row, column) => {
    const x = Math.floor((column + 0.5) * cell);
    const y = Math.floor((row + 0.5) * cell);
    return data[4 * (y * canvas.width + x) + 1] > 127 ? 1 : 0;
  };
  return decodeBarcode(bit)?.frame ?? null;
};
true;
