// The connection to the gateway: signalling over a WebSocket with the messages of Unity Render Streaming, and WebRTC.

import { iceServers, isPortal } from "./portal";
import { offerOnly } from "./support";

export interface Events {
  state(words: string): void;
  /** A track is available. */
  video(track: MediaStreamTrack, receiver: RTCRtpReceiver): void;
  sound(track: MediaStreamTrack): void;
  /** An unreliable message: see wire.ts. */
  control(message: ArrayBuffer): void;
  /** A reliable message: JSON, or a message in the native client's format. */
  notice(message: string | ArrayBuffer): void;
  open(): void;
  /** The connection has ended; `again`: whether reconnecting makes sense. */
  closed(why: string, again: boolean): void;
}

/** Timeout of an ICE restart in milliseconds: the host drops a page after 10 s. */
const RESTART_WITHIN = 8000;

/** Browsers provide `crypto.randomUUID` only with HTTPS. */
function connectionId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

export class Link {
  private socket: WebSocket;
  private peer: RTCPeerConnection | null = null;
  private control: RTCDataChannel | null = null;
  private noticeChannel: RTCDataChannel | null = null;
  private readonly id = connectionId();
  private over = false;
  /** The timer of [measureRoundTrip]. */
  private roundTrip: number | null = null;
  /** Timeout of the current ICE restart. */
  private restart: number | null = null;

  constructor(
    private readonly events: Events,
    /** Query of the signalling URL. */
    query: string,
    /** Whether to connect only through a relay (TURN), for tests. */
    private readonly relayed: boolean,
    /** The only video codec to offer, such as "vp9"; null to offer all codecs. */
    private readonly codec: string | null,
  ) {
    // The address is relative to the page. Only a portal serves the page without TLS. The portal is then behind a
    // proxy, or on this machine.
    const address = new URL(`signalling?${query}`, location.href);
    address.protocol = location.protocol === "http:" ? "ws:" : "wss:";
    this.socket = new WebSocket(address);
    this.socket.onopen = () => this.send({ type: "connect", connectionId: this.id });
    this.socket.onmessage = (message) => void this.signalled(JSON.parse(message.data));
    this.socket.onclose = () => {
      // The portal may have restarted. A running session does not need the portal until an ICE restart.
      if (isPortal && this.peer?.connectionState === "connected") return;
      this.close("the host closed the connection", true);
    };
  }

  /** Sends an unreliable message. */
  sendControl(message: Uint8Array<ArrayBuffer>) {
    if (this.control?.readyState === "open") this.control.send(message);
  }

  sendNotice(message: object) {
    if (this.noticeChannel?.readyState === "open") this.noticeChannel.send(JSON.stringify(message));
  }

  /** Sends bytes reliably, after all previous messages have been sent. */
  async sendNoticeBytes(message: Uint8Array<ArrayBuffer>) {
    const channel = this.noticeChannel;
    while (channel?.readyState === "open" && channel.bufferedAmount > 0)
      await new Promise((resolve) => setTimeout(resolve, 5));
    if (channel?.readyState === "open") channel.send(message);
  }

  statistics(): Promise<RTCStatsReport> | null {
    return this.peer?.getStats() ?? null;
  }

  close(why: string, again: boolean) {
    if (this.over) return;
    this.over = true;
    if (this.roundTrip !== null) clearInterval(this.roundTrip);
    this.peer?.close();
    this.socket.close();
    this.events.closed(why, again);
  }

  private send(message: object) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private async signalled(message: {
    type: string;
    message?: string;
    connectionId?: string;
    from?: string;
    iceServers?: RTCIceServer[];
    data?: { sdp?: string; candidate?: string; sdpMid?: string; sdpMLineIndex?: number };
  }) {
    switch (message.type) {
      case "connect":
        await this.open([...iceServers, ...(message.iceServers ?? [])]);
        break;
      case "answer":
        if (message.from === this.id && message.data?.sdp)
          await this.peer?.setRemoteDescription({ type: "answer", sdp: message.data.sdp });
        break;
      case "candidate":
        if (message.data?.candidate) await this.peer?.addIceCandidate(message.data);
        break;
      case "error":
        this.close(message.message ?? "the host refused the connection", false);
        break;
      case "disconnect":
        this.close("the host ended the connection", false);
    }
  }

  private async open(iceServers: RTCIceServer[]) {
    const peer = new RTCPeerConnection({
      bundlePolicy: "max-bundle",
      iceServers,
      iceTransportPolicy: this.relayed ? "relay" : "all",
    });
    this.peer = peer;
    this.control = peer.createDataChannel("control", { ordered: false, maxRetransmits: 0 });
    this.control.binaryType = "arraybuffer";
    this.control.onmessage = (message) => this.events.control(message.data);
    this.noticeChannel = peer.createDataChannel("told");
    this.noticeChannel.binaryType = "arraybuffer";
    this.noticeChannel.onmessage = (message) => this.events.notice(message.data);
    this.noticeChannel.onopen = () => this.events.open();
    const video = peer.addTransceiver("video", { direction: "recvonly" });
    if (this.codec !== null) offerOnly(this.codec, video);
    peer.addTransceiver("audio", { direction: "recvonly" });
    this.measureRoundTrip(peer);
    peer.ontrack = ({ track, receiver }) => {
      // Minimal jitter buffer.
      if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = 0;
      if (track.kind === "video") this.events.video(track, receiver);
      else this.events.sound(track);
    };
    peer.onicecandidate = ({ candidate }) => {
      if (!candidate?.candidate) return;
      const { candidate: words, sdpMid, sdpMLineIndex } = candidate;
      const data = { connectionId: this.id, candidate: words, sdpMid, sdpMLineIndex };
      this.send({ type: "candidate", from: this.id, data });
    };
    peer.onconnectionstatechange = () => {
      const state = peer.connectionState;
      if (state === "connected") {
        // The connection works, so the timeout of an ICE restart no longer applies.
        if (this.restart !== null) clearTimeout(this.restart);
        this.restart = null;
        return;
      }
      this.events.state(state);
      if (state === "disconnected" || state === "failed") this.lookAgain(peer);
    };
    await this.offer(peer);
  }

  /**
   * Sends a video of 16x16 pixels with one frame per second, so that the browser learns the round-trip time from the
   * host's receiver reports (RFC 3550, 6.4.1). A receive-only browser assumes a round-trip time of 100 ms. If a
   * retransmission is lost, it waits that long before it repeats the NACK.
   */
  private measureRoundTrip(peer: RTCPeerConnection) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 16;
    const context = canvas.getContext("2d");
    if (!context || !("captureStream" in canvas)) return;
    const stream = canvas.captureStream(0);
    const track = stream.getVideoTracks()[0] as CanvasCaptureMediaStreamTrack | undefined;
    if (!track) return;
    const encodings = [{ maxBitrate: 10_000, maxFramerate: 1 }];
    peer.addTransceiver(track, { direction: "sendonly", sendEncodings: encodings });
    let lit = false;
    this.roundTrip = window.setInterval(() => {
      lit = !lit;
      context.fillStyle = lit ? "#111" : "#000";
      context.fillRect(0, 0, 16, 16);
      track.requestFrame();
    }, 1000);
  }

  /** Restarts ICE: this machine's network may have changed. */
  private lookAgain(peer: RTCPeerConnection) {
    if (this.restart !== null || this.over) return;
    const broke = () => this.close("the network path to the host failed", true);
    this.restart = window.setTimeout(broke, RESTART_WITHIN);
    peer.restartIce();
    void this.offer(peer).catch(broke);
  }

  private async offer(peer: RTCPeerConnection) {
    await peer.setLocalDescription();
    const sdp = peer.localDescription?.sdp;
    this.send({ type: "offer", from: this.id, data: { connectionId: this.id, sdp } });
  }
}
