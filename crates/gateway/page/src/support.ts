// What the page needs of a browser, looked at before anybody logs in.

/** Why the page can't do its work in this browser, in one sentence; null: it can. */
export async function missing(): Promise<string | null> {
  if (!("RTCPeerConnection" in window) || !("WebSocket" in window))
    return "This browser has no WebRTC: use Chromium, Chrome, Edge, Firefox or Safari.";
  if (await decodesH264()) return null;
  return "This browser decodes no H.264 by WebRTC: use another one, or, in Firefox, load the page again when its OpenH264 plug-in is installed.";
}

/** Asks by an offer: not every browser lists what it decodes, and one that lists it may lack its plug-in. */
async function decodesH264(): Promise<boolean> {
  const peer = new RTCPeerConnection();
  try {
    peer.addTransceiver("video", { direction: "recvonly" });
    const { sdp } = await peer.createOffer();
    return /^a=rtpmap:\d+ H264\/90000/m.test(sdp ?? "");
  } finally {
    peer.close();
  }
}
