// Required browser features, checked before the log-in.

/** Why the browser is not supported, in one sentence; null: it is. */
export async function missing(): Promise<string | null> {
  if (!("RTCPeerConnection" in window) || !("WebSocket" in window))
    return "This browser has no WebRTC: use Chromium, Chrome, Edge, Firefox or Safari.";
  if (await decodesVideo()) return null;
  return "This browser supports neither H.264 nor VP9 in WebRTC: use another one; in Firefox, reload the page once its OpenH264 plug-in is installed.";
}

/** Tests with an offer: not every browser lists its decoders, and a listed decoder may lack its plug-in. */
async function decodesVideo(): Promise<boolean> {
  const peer = new RTCPeerConnection();
  try {
    peer.addTransceiver("video", { direction: "recvonly" });
    const { sdp } = await peer.createOffer();
    return /^a=rtpmap:\d+ (H264|VP9)\/90000/m.test(sdp ?? "");
  } finally {
    peer.close();
  }
}

/** Offers only this codec, such as "vp9", and its retransmissions. A browser without it offers all codecs. */
export function offerOnly(codec: string, transceiver: RTCRtpTransceiver) {
  const wanted = `video/${codec}`.toLowerCase();
  const is = (type: string) => (of: { mimeType: string }) => of.mimeType.toLowerCase() === type;
  const all = RTCRtpReceiver.getCapabilities("video")?.codecs ?? [];
  const chosen = all.filter(is(wanted));
  if (chosen.length > 0) transceiver.setCodecPreferences([...chosen, ...all.filter(is("video/rtx"))]);
}
