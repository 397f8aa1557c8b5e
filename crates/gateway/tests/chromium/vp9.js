// Injected before the page's script and after barcode.js. Loses frames on request, and compares the displayed bar code
// with an ideal one.

/** While this is set, frames are lost. A key frame resets it. */
globalThis.losing = false;
globalThis.lost = 0;

/**
 * The received video's encoded frames pass through a transform, which loses them between the depacketiser and the
 * decoder. Chromium permits it only in the task that creates the receiver.
 */
{
  const Connection = globalThis.RTCPeerConnection;
  globalThis.RTCPeerConnection = class extends Connection {
    constructor(settings) {
      super({ ...settings, encodedInsertableStreams: true });
    }

    addTransceiver(kind, options) {
      const made = super.addTransceiver(kind, options);
      if (kind === "video") {
        const { readable, writable } = made.receiver.createEncodedStreams();
        const transform = (frame, controller) => {
          if (frame.type === "key") losing = false;
          if (losing && frame.type === "delta") lost += 1;
          else controller.enqueue(frame);
        };
        void readable.pipeThrough(new TransformStream({ transform })).pipeTo(writable);
      }
      return made;
    }
  };
}

/** The codec of the received video, and the numbers of decoded frames and of key-frame requests;
 * null without a stream. */
globalThis.decodedVideo = async () => {
  for (const peer of watched.peers) {
    const all = await peer.getStats();
    for (const entry of all.values())
      if (entry.type === "inbound-rtp" && entry.kind === "video" && entry.codecId)
        return { codec: all.get(entry.codecId).mimeType, frames: entry.framesDecoded, requests: entry.pliCount };
  }
  return null;
};

/** The PSNR in dB of the displayed bar code relative to a code in pure black and white, at most 100; null without a code. */
globalThis.likeness = () => {
  if (readBarcode() === null) return null;
  const canvas = globalThis.barcodeCanvas;
  const cell = canvas.width / 80;
  const [width, height] = [Math.floor(64 * cell), Math.floor(2 * cell)];
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const green = (x, y) => data[4 * (y * width + x) + 1];
  let sum = 0;
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const middle = (at) => Math.floor((Math.floor(at / cell) + 0.5) * cell);
      const ideal = green(middle(x), middle(y)) > 127 ? 255 : 0;
      sum += (green(x, y) - ideal) ** 2;
    }
  return Math.min(100, 10 * Math.log10(255 ** 2 / (sum / (width * height))));
};
