// The connection to the gateway: a WebSocket for signalling, in the messages of Unity Render Streaming, and
// WebRTC.

import { iceServers, isPortal } from "./portal";

export interface Events {
  state(words: string): void;
  /** The tracks are there. */
  video(track: MediaStreamTrack, receiver: RTCRtpReceiver): void;
  sound(track: MediaStreamTrack): void;
  /** What may be lost: see wire.ts. */
  control(message: ArrayBuffer): void;
  /** What arrives, and in order: JSON, or a message that our own client hears, too. */
  told(message: string | ArrayBuffer): void;
  open(): void;
  /** It is over; whether another attempt makes sense. */
  closed(why: string, again: boolean): void;
}

/** How long another way to the host is looked for, in milliseconds: it forgets a page after 10 s. */
const RESTART_WITHIN = 8000;

/** Of a page without HTTPS browsers withhold `crypto.randomUUID`. */
function connectionId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

export class Link {
  private socket: WebSocket;
  private peer: RTCPeerConnection | null = null;
  private control: RTCDataChannel | null = null;
  private toldChannel: RTCDataChannel | null = null;
  private readonly id = connectionId();
  private over = false;
  /** The timer of [measureRoundTrip]. */
  private roundTrip: number | null = null;
  /** It looks for another way to the host, and gives up then. */
  private restart: number | null = null;

  constructor(
    private readonly events: Events,
    /** What signalling is asked for in its address. */
    query: string,
    /** Only by a relay (TURN): to see whether that goes. */
    private readonly relayed: boolean,
  ) {
    // Beside the page. By HTTP only a portal serves it, behind a proxy or on this machine.
    const address = new URL(`signalling?${query}`, location.href);
    address.protocol = location.protocol === "http:" ? "ws:" : "wss:";
    this.socket = new WebSocket(address);
    this.socket.onopen = () => this.send({ type: "connect", connectionId: this.id });
    this.socket.onmessage = (message) => void this.signalled(JSON.parse(message.data));
    this.socket.onclose = () => {
      // A portal that is started anew: what plays needs it no more, until another way to the host is looked for.
      if (isPortal && this.peer?.connectionState === "connected") return;
      this.close("the host closed the connection", true);
    };
  }

  /** Says something that may be lost. */
  say(message: Uint8Array<ArrayBuffer>) {
    if (this.control?.readyState === "open") this.control.send(message);
  }

  tell(message: object) {
    if (this.toldChannel?.readyState === "open") this.toldChannel.send(JSON.stringify(message));
  }

  /** The same in bytes, when what was told before has left. */
  async tellBytes(message: Uint8Array<ArrayBuffer>) {
    const channel = this.toldChannel;
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
        this.close(message.message ?? "the host refuses", false);
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
    this.toldChannel = peer.createDataChannel("told");
    this.toldChannel.binaryType = "arraybuffer";
    this.toldChannel.onmessage = (message) => this.events.told(message.data);
    this.toldChannel.onopen = () => this.events.open();
    peer.addTransceiver("video", { direction: "recvonly" });
    peer.addTransceiver("audio", { direction: "recvonly" });
    this.measureRoundTrip(peer);
    peer.ontrack = ({ track, receiver }) => {
      // The browser is to hold nothing back for smoothness.
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
        // What comes behind it the host says.
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
   * Sends a picture of 16x16 pixels once a second, so that the browser learns the round trip from the host's receiver
   * reports (RFC 3550, 6.4.1). One that only receives takes it to be 100 ms, and waits as long before it asks again for
   * a packet whose repetition was lost, too.
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

  /** Looks for another way to the host: this machine's network may have changed. */
  private lookAgain(peer: RTCPeerConnection) {
    if (this.restart !== null || this.over) return;
    const broke = () => this.close("the way to the host broke", true);
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
