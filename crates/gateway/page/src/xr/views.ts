// The eyes' poses and fields of view with which the application drew each frame. The RTP timestamp of a picture
// identifies its frame. crates/gateway/src/views.rs writes these messages.

import type { Quaternion, Tangents, Vector } from "./math";

/** An eye. */
export interface View {
  /** In the space of the player's poses. */
  position: Vector;
  orientation: Quaternion;
  shows: Tangents;
}

/** A frame of virtual reality. */
export interface Drawn {
  /** Number of the player's pose that it was drawn with; 0: unknown. */
  pose: number;
  /** One or two views, side by side in the picture from left to right. */
  views: View[];
}

/** Number of frames kept: two seconds at 90 frames/s. */
const MOST = 180;

/** Length of a view in bytes. */
const VIEW = 11 * 4;

export class Views {
  private frames = new Map<number, Drawn>();

  /** Parses the gateway's message; ignores a truncated frame. */
  read(d: DataView) {
    for (let at = 1; at + 9 <= d.byteLength; ) {
      const rtpTime = d.getUint32(at, true);
      const pose = d.getUint32(at + 4, true);
      const count = d.getUint8(at + 8);
      at += 9;
      if (count < 1 || count > 2 || at + count * VIEW > d.byteLength) return;
      const views = Array.from({ length: count }, (_, eye) => view(d, at + eye * VIEW));
      at += count * VIEW;
      // The frame is inserted again, so that it becomes the newest.
      this.frames.delete(rtpTime);
      this.frames.set(rtpTime, { pose, views });
    }
    for (const old of this.frames.keys()) {
      if (this.frames.size <= MOST) break;
      this.frames.delete(old);
    }
  }

  /** The frame with this RTP timestamp. */
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
