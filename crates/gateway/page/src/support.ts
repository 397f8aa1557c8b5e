// Required browser features, checked before the log-in.

/** Why the browser is not supported, in one sentence; null: it is. */
export async function missing(): Promise<string | null> {
  if (!("RTCPeerConnection" in window) || !("WebSocket" in window))
    return "This browser has no WebRTC: use Chromium, Chrome, Edge, Firefox or Safari.";
  if (await decodesH264()) return null;
  return "This browser has no H.264 support in WebRTC: use another one; in Firefox, reload the page once its OpenH264 plug-in is installed.";
}

/** Tests with an offer: not every browser lists its decoders, and a listed decoder may lack its plug-in. */
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
