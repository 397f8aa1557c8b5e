// Required browser features, checked before the log-in.

/** Why the browser is not supported, in one sentence; null if it is supported. */
export async function missing(): Promise<string | null> {
  if (!("RTCPeerConnection" in window) || !("WebSocket" in window))
    return "This browser has no WebRTC: use Chromium, Chrome, Edge, Firefox or Safari.";
  const decodes = await decodedCodecs();
  if (decodes.includes("H264")) return null;
  if (decodes.includes("VP9") && (await hostCodecs()).includes("VP9")) return null;
  return "This browser has no H.264 support in WebRTC: use another browser; in Firefox, wait until the OpenH264 plug-in is installed, then reload the page.";
}

/**
 * The codecs in an offer. A list of decoders would not suffice: some browsers have no such list, and some list a
 * decoder before its plug-in is installed.
 */
async function decodedCodecs(): Promise<string[]> {
  const peer = new RTCPeerConnection();
  try {
    peer.addTransceiver("video", { direction: "recvonly" });
    const { sdp } = await peer.createOffer();
    return Array.from((sdp ?? "").matchAll(/^a=rtpmap:\d+ (\w+)\/90000/gm), (found) => found[1]!);
  } finally {
    peer.close();
  }
}

/** The host's video codecs; empty if unknown, as on the page of a portal, which does not serve this list. */
async function hostCodecs(): Promise<string[]> {
  const answer = await fetch("codecs").catch(() => null);
  return answer?.ok ? ((await answer.json()) as string[]) : [];
}

/** Offers only this codec, such as "vp9", and retransmissions. A browser without the codec offers all codecs. */
export function offerOnly(codec: string, transceiver: RTCRtpTransceiver) {
  const wanted = `video/${codec}`.toLowerCase();
  const is = (type: string) => (of: { mimeType: string }) => of.mimeType.toLowerCase() === type;
  const all = RTCRtpReceiver.getCapabilities("video")?.codecs ?? [];
  const chosen = all.filter(is(wanted));
  if (chosen.length > 0) transceiver.setCodecPreferences([...chosen, ...all.filter(is("video/rtx"))]);
}
