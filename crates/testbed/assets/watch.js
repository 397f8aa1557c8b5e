// Observes a host's page from outside the page's own script. Records for each picture its number, from the bar code in
// its pixels, and the time at which it was handed to the compositor. Also records the times at which keys arrived.
// barcode.js, which is injected before this script, defines decodeBarcode().

globalThis.watched = { pictures: [], keys: [], unreadable: 0, elsewhere: 0, peers: [] };

/** Copies only the luma of the code's rows from the decoder's picture, which is cheap. */
const stampOf = async (video, mediaTime) => {
  const picture = new VideoFrame(video);
  try {
    // If the picture's timestamp is not `mediaTime`, a newer picture has already replaced the picture for which this
    // callback was called.
    if (Math.abs(picture.timestamp / 1e6 - mediaTime) > 1e-4) return undefined;
    const width = picture.visibleRect.width;
    const height = 2 * Math.ceil(width / 80);
    const rect = { x: picture.visibleRect.x, y: picture.visibleRect.y, width: width & ~1, height };
    const bytes = new Uint8Array(picture.allocationSize({ rect }));
    const [luma] = await picture.copyTo(bytes, { rect });
    const cell = width / 80;
    const at = (row, column) =>
      bytes[luma.offset + Math.floor((row + 0.5) * cell) * luma.stride + Math.floor((column + 0.5) * cell)];
    return decodeBarcode((row, column) => (at(row, column) > 127 ? 1 : 0));
  } finally {
    picture.close();
  }
};

globalThis.watchPictures = () => {
  const video = document.querySelector("#video");
  const each = (_, meta) => {
    video.requestVideoFrameCallback(each);
    void stampOf(video, meta.mediaTime).then((stamp) => {
      if (stamp === undefined) watched.elsewhere += 1;
      else if (stamp === null) watched.unreadable += 1;
      else
        watched.pictures.push([
          stamp.frame,
          stamp.drawn,
          stamp.inputs,
          meta.presentationTime,
          meta.receiveTime ?? null,
          meta.presentedFrames,
        ]);
    });
  };
  video.requestVideoFrameCallback(each);
  return true;
};

/** The times at which the browser created the event and at which the page received it. */
window.addEventListener("keydown", (event) => watched.keys.push([event.timeStamp, performance.now()]), {
  capture: true,
});

/** The browser's statistics of a "video" or "audio" stream: by default, of a received stream; null if there is none. */
globalThis.statisticsOf = async (kind, type = "inbound-rtp") => {
  for (const peer of watched.peers)
    for (const entry of (await peer.getStats()).values())
      if (entry.type === type && entry.kind === kind) return { ...entry };
  return null;
};

{
  const Connection = globalThis.RTCPeerConnection;
  globalThis.RTCPeerConnection = class extends Connection {
    constructor(...settings) {
      super(...settings);
      watched.peers.push(this);
    }

    // If an emulated link carries the media, the link's port replaces the host's port in the host's candidates. The
    // browser's own candidates are withheld, so that the host learns only the link's address, as a peer-reflexive
    // candidate.
    setRemoteDescription(description) {
      return super.setRemoteDescription({ ...description, sdp: description.sdp && throughLink(description.sdp) });
    }

    addIceCandidate(candidate) {
      return super.addIceCandidate({ ...candidate, candidate: throughLink(candidate.candidate) });
    }
  };
  const mediaLink = globalThis.mediaLink ?? null;
  const throughLink = (text) =>
    mediaLink ? text.replace(/(candidate:\S+ \d+ udp \d+ \S+ )\d+/gi, `$1${mediaLink}`) : text;
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (message) {
    if (mediaLink && typeof message === "string" && JSON.parse(message).type === "candidate") return;
    send.call(this, message);
  };
}
