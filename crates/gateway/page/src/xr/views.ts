// What the application at the host drew each frame with: poses and fields of view of its eyes, found again by the
// RTP time of the picture that the browser shows. crates/gateway/src/views.rs writes what is read here.

import type { Quaternion, Tangents, Vector } from "./math";

/** An eye. */
export interface View {
  /** In the space of the poses that the player sends. */
  position: Vector;
  orientation: Quaternion;
  shows: Tangents;
}

/** A frame of a virtual reality. */
export interface Drawn {
  /** The number of the player's pose that the application drew it with; 0 where it is not known. */
  pose: number;
  /** One or two, which stand side by side in the picture from left to right. */
  views: View[];
}

/** Frames that are remembered: two seconds. */
const MOST = 180;

/** Bytes of a view. */
const VIEW = 11 * 4;

export class Views {
  private frames = new Map<number, Drawn>();

  /** Reads the gateway's message; what is cut off is passed over. */
  heard(d: DataView) {
    for (let at = 1; at + 9 <= d.byteLength; ) {
      const rtpTime = d.getUint32(at, true);
      const pose = d.getUint32(at + 4, true);
      const count = d.getUint8(at + 8);
      at += 9;
      if (count < 1 || count > 2 || at + count * VIEW > d.byteLength) return;
      const views = Array.from({ length: count }, (_, eye) => view(d, at + eye * VIEW));
      at += count * VIEW;
      // Behind the others also if it was there.
      this.frames.delete(rtpTime);
      this.frames.set(rtpTime, { pose, views });
    }
    for (const old of this.frames.keys()) {
      if (this.frames.size <= MOST) break;
      this.frames.delete(old);
    }
  }

  /** Of the frame with this RTP time. */
  of(rtpTime: number | undefined): Drawn | undefined {
    return rtpTime === undefined ? undefined : this.frames.get(rtpTime);
  }
}

function view(d: DataView, at: number): View {
  const number = (n: number) => d.getFloat32(at + 4 * n, true);
  return {
    position: [number(0), number(1), number(2)],
    orientation: [number(3), number(4), number(5), number(6)],
    shows: {
      left: Math.tan(number(7)),
      right: Math.tan(number(8)),
      up: Math.tan(number(9)),
      down: Math.tan(number(10)),
    },
  };
}
