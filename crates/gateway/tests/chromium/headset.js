// Installs a headset that the library iwer emulates. `device` controls the headset and its controllers, `felt` returns
// the newest haptic pulse of a hand, and `views` is the newest message about a frame's views that the page has
// received.
globalThis.device = new IWER.XRDevice(IWER.metaQuest3, { stereoEnabled: true });
device.installRuntime({ forceInstall: true });

const pulses = new Map();
globalThis.felt = (hand) => pulses.get(hand) ?? null;
const request = navigator.xr.requestSession.bind(navigator.xr);
navigator.xr.requestSession = async (...how) => {
  const session = await request(...how);
  const follow = () => {
    for (const source of session.inputSources) {
      const motor = source.gamepad?.hapticActuators[0];
      if (motor)
        motor.pulse = async (value, lasts) => {
          pulses.set(source.handedness, [value, lasts]);
          return true;
        };
    }
  };
  session.addEventListener("inputsourceschange", follow);
  session.requestAnimationFrame(follow);
  return session;
};

const VIEWS = 0xf2;
const channel = RTCPeerConnection.prototype.createDataChannel;
RTCPeerConnection.prototype.createDataChannel = function (...how) {
  const made = channel.apply(this, how);
  made.addEventListener("message", ({ data }) => {
    if (data instanceof ArrayBuffer && new Uint8Array(data)[0] === VIEWS) globalThis.views = new DataView(data);
  });
  return made;
};
