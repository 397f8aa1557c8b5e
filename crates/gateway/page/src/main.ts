// The page: log-in, connection, playing.

import { offerChords } from "./chords";
import { Clipboard } from "./clipboard";
import { HostClock } from "./clock";
import { Cursor } from "./cursor";
import { Figures } from "./figures";
import { keepExact } from "./fit";
import { Frames } from "./frames";
import { Input } from "./input";
import { Link } from "./link";
import { StatisticsLog } from "./log";
import { hasTicket, host, logIn, usualName } from "./login";
import { Notice } from "./notice";
import { Outbox } from "./outbox";
import { Pads } from "./pads";
import { Pairing } from "./pairing";
import { enter, isPortal, showWayBack, title } from "./portal";
import { Sound } from "./sound";
import { missing } from "./support";
import { Tabs } from "./tabs";
import { StreamConstraints } from "./constraints";
import { Reality } from "./xr/reality";
import { CLIPBOARD_PIECE, CLIPBOARD_DIRECTIONS, CURSOR_SHAPE } from "./wire";
import { ping, pong, read, reports, type Haptic, type InputEvent, type Rumble } from "./wire";

/** Delay between reconnection attempts in milliseconds. */
const RETRY_DELAY = 2000;

/** Number of checks whether the portal's session has ended: a stopping application may still be saving. A guess. */
const END_POLLS = 15;

/** Retransmission interval of unacknowledged input in milliseconds. */
const REPEAT = 20;

/** Keep-alive interval of an idle player in milliseconds: the host releases all input on silence. */
const ALIVE = 400;

function byId<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const video = byId<HTMLVideoElement>("video");
const picture = byId("picture");
const menu = byId("menu");
const form = byId<HTMLFormElement>("login");
const state = byId("state");
const query = new URLSearchParams(location.search);
const watch = query.get("role") === "watch";
const relayed = query.get("path") === "relay";
const codec = query.get("codec");
// On a portal's page, page.css hides the statistics if this attribute is missing.
document.documentElement.toggleAttribute("data-figures", query.has("figures"));

let link: Link | null = null;
let plays = false;
/** The role as text, shown while there is no other message. */
let roleWords = "";
let wantsRelative = false;
let outbox = newOutbox();
let clock = new HostClock();
let hostNames = new Map<number, number>();
let sentAt = 0;

const figures = new Figures(byId("figures-over"), byId("figures"));
const statisticsLog = new StatisticsLog();
function push(event: InputEvent, at: number) {
  outbox.push(event, at);
  sendInput();
}

const pads = new Pads(push);
const notice = new Notice(byId("notice"), byId<HTMLCanvasElement>("last"), video);
const sound = new Sound(byId<HTMLAudioElement>("audio"), byId("sound"), byId<HTMLInputElement>("volume"));
const constraints = new StreamConstraints(byId<HTMLSelectElement>("size"), byId<HTMLSelectElement>("bitrate"), () => link && connect());
const input = new Input(picture, video, byId<HTMLTextAreaElement>("keys"), {
  plays: () => plays,
  push,
  pointed: (x, y) => cursor.pointed(x, y),
});
const cursor = new Cursor(byId<HTMLCanvasElement>("cursor"), picture, input);
const clipboard = new Clipboard(
  byId("clipboard"),
  () => plays,
  (message) => link?.sendNoticeBytes(message) ?? Promise.resolve(),
  showStatus,
);
const pairing = new Pairing((message) => link?.sendNotice(message), showStatus, backToPicture);
const reality = new Reality(
  byId<HTMLCanvasElement>("reality"),
  video,
  { look: byId("look"), eyes: byId("eyes"), enter: byId("enter") },
  {
    plays: () => plays,
    sendControl: (message) => link?.sendControl(message),
    words: showStatus,
    drawn: (motionToPhoton) => figures.posed(motionToPhoton),
  },
  (["left", "right"] as const).find((eye) => eye === query.get("view")) ?? "both",
);
let frames = newFrames();

function newOutbox() {
  return new Outbox(() => pads.forget());
}

function newFrames() {
  return new Frames(
    {
      offset: () => clock.offset(),
      sampledAt: (number) => {
        const ours = hostNames.get(number);
        return ours === undefined ? undefined : outbox.sampledAt(ours);
      },
      posed: (rtpTime) => reality.posed(rtpTime),
    },
    (all) => link?.sendControl(reports(all)),
    (shown) => figures.shown(shown),
  );
}

function showStatus(words: string) {
  state.textContent = words;
}

function sendInput() {
  sentAt = performance.now();
  link?.sendControl(outbox.message());
}

function connect() {
  link?.close("replaced by a new connection", false);
  roleWords = "";
  clipboard.forget();
  pairing.forget();
  input.forget();
  outbox = newOutbox();
  clock = new HostClock();
  hostNames = new Map();
  frames = newFrames();
  const made = new Link(
    {
      state(words) {
        // Late events must not overwrite the host's role message.
        if (roleWords === "") showStatus(words);
        if (words === "disconnected" || words === "failed") notice.reconnecting("No picture from the host.");
      },
      video(track) {
        video.srcObject = new MediaStream([track]);
        void video.play().catch(() => undefined);
      },
      sound: (track) => sound.take(track),
      control: (message) => read(message, handlers),
      notice: onNotice,
      open() {
        backToPicture();
      },
      closed(why, again) {
        if (link !== made) return;
        link = null;
        plays = false;
        pairing.forget();
        byId("watch").hidden = true;
        reality.closed();
        showStatus(why);
        if (again) {
          notice.reconnecting(sentence(why));
          startLater("");
        } else {
          notice.ended(sentence(why));
          if (isPortal) void pollForEnd();
        }
      },
    },
    `reports${watch ? "&role=watch" : ""}${constraints.query()}`,
    relayed,
    codec,
  );
  link = made;
}

const handlers = {
  ping(asked: bigint) {
    const now = performance.now();
    link?.sendControl(pong(asked, now, performance.now()));
  },
  pong(asked: bigint, received: bigint, answered: bigint) {
    const [t1, t2, t3] = [asked, received, answered].map((at) => Number(at) / 1e6);
    clock.note(t1, t2, t3, performance.now());
  },
  inputSeen(through: number) {
    outbox.seen(through);
  },
  cursorMoved: (serial: number, at: { x: number; y: number } | null) => cursor.moved(serial, at),
  frames: (left: Parameters<Frames["onSent"]>[0]) => frames.onSent(left),
  rumble: (said: Rumble) => pads.rumble(said),
  haptic: (felt: Haptic) => reality.felt(felt),
  views: (message: DataView) => reality.onViews(message),
  inputNumbers(page: number, host: number) {
    hostNames.set(host, page);
    hostNames.delete(host - 1024);
  },
};

function onNotice(message: string | ArrayBuffer) {
  if (typeof message !== "string") {
    onNoticeBytes(new DataView(message));
    return;
  }
  const news = JSON.parse(message);
  switch (news.type) {
    case "role":
      if (news.plays && !plays) {
        pads.forget();
        input.forget();
      }
      plays = news.plays;
      if (!plays) pairing.forget();
      clipboard.roleChanged();
      reality.changed();
      byId("role").hidden = plays;
      byId("watch").hidden = !plays;
      roleWords = plays ? "you play" : (news.why ?? "you watch");
      showStatus(roleWords);
      break;
    case "refused":
      showStatus(news.why);
      break;
    case "relative":
      wantsRelative = news.relative;
      byId("relative").hidden = !wantsRelative;
      if (!wantsRelative && document.pointerLockElement) document.exitPointerLock();
      break;
    case "shown":
      showStatus(news.shown ? roleWords : "the window at the host is hidden");
      break;
    case "pairing":
      if (plays) pairing.news(news);
      break;
    case "paired":
      pairing.outcome(news.paired, news.words);
      break;
    case "decision":
      figures.decided(news.words);
  }
}

function onNoticeBytes(message: DataView) {
  switch (message.getUint8(0)) {
    case CURSOR_SHAPE:
      cursor.shape(message);
      break;
    case CLIPBOARD_DIRECTIONS:
      clipboard.ways(message);
      break;
    case CLIPBOARD_PIECE:
      clipboard.piece(message);
  }
}

/** Timer of the next attempt. */
let next: number | null = null;

function startLater(pin: string) {
  if (next !== null) clearTimeout(next);
  next = window.setTimeout(() => void start(pin), RETRY_DELAY);
}

/** An attempt is running. */
let starting = false;

async function start(pin: string) {
  if (next !== null) clearTimeout(next);
  next = null;
  if (starting) return;
  starting = true;
  try {
    await beginOnce(pin);
  } finally {
    starting = false;
  }
}

async function beginOnce(pin: string) {
  const name = byId<HTMLInputElement>("name");
  if (name.value === "") name.value = localStorage.getItem("name") ?? usualName();
  let answer: Awaited<ReturnType<typeof logIn>>;
  try {
    answer = isPortal ? await enter() : await logIn(name.value, pin);
  } catch {
    const why = isPortal ? "the portal does not respond" : "the host does not respond";
    showStatus(why);
    notice.reconnecting(sentence(why));
    startLater("");
    return;
  }
  byId("host").textContent = host;
  document.title = `${isPortal ? title : host} – OpenUVR`;
  if ("over" in answer) {
    showEnd(answer);
    return;
  }
  if ("later" in answer) {
    showStatus(answer.later);
    notice.waiting(sentence(answer.later));
    // A PIN that the host has already consumed is invalid. The next attempt therefore omits the PIN.
    startLater("");
    return;
  }
  if ("refused" in answer) {
    showStatus("not logged in");
    notice.hide();
    // If a log-in without a PIN and without a ticket is refused, usually only a PIN is needed.
    byId("refused").textContent = pin === "" && !hasTicket() ? "" : answer.refused;
    form.hidden = false;
    byId("pin").focus();
    return;
  }
  localStorage.setItem("name", name.value);
  form.hidden = true;
  if (!isPortal) showStatus(`logged in as ${answer.device}`);
  connect();
}

function showEnd({ over, title }: { over: string; title: string }) {
  showStatus(over);
  notice.over(title, sentence(over));
  // Full screen would hide the bar with the link back to the portal.
  if (document.fullscreenElement) void document.exitFullscreen();
}

/** Polls the portal for the end of the session. Then shows the end, without the button for reconnecting. */
async function pollForEnd() {
  for (let attempt = 0; attempt < END_POLLS; attempt += 1) {
    const answer = await enter().catch(() => null);
    // The user has reconnected in the meantime.
    if (link || starting) return;
    if (answer && "over" in answer) {
      showEnd(answer);
      return;
    }
    await new Promise((wake) => setTimeout(wake, RETRY_DELAY));
    if (link || starting) return;
  }
}

function onPicture(_: number, meta: VideoFrameCallbackMetadata) {
  // A picture may still arrive after the connection ended.
  if (link) notice.hide();
  frames.presented(meta);
  reality.picture(meta);
  video.requestVideoFrameCallback(onPicture);
}

/** Returns the focus to the picture after a button was pressed. */
function backToPicture() {
  if (!byId("play").hidden && form.hidden && !menu.matches(":popover-open")) input.focus();
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void start(byId<HTMLInputElement>("pin").value.replace(/\s/g, ""));
});
keepExact(picture, video);
new Tabs(document.querySelector("nav")!, backToPicture);
offerChords(byId("chords"), (keys) => input.chord(keys));
byId("again").addEventListener("click", () => {
  notice.reconnecting("");
  void start("");
});
// A mouse click on a button of the bar does not move the focus. After any other button press, the focus returns to the
// picture.
for (const bar of [byId("actions"), menu])
  bar.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest("button:not(#open-menu)")) return;
    if (menu.matches(":popover-open")) menu.hidePopover();
    backToPicture();
  });
byId("actions").addEventListener("mousedown", (event) => event.preventDefault());
menu.addEventListener("toggle", (event) => {
  if ((event as ToggleEvent).newState === "closed") backToPicture();
  else menu.focus();
});
document.addEventListener("fullscreenchange", backToPicture);
byId("keyboard").addEventListener("click", () => {
  byId("keyboard").setAttribute("aria-pressed", String(input.toggleOnScreenKeyboard()));
});
// Ctrl+W, meant for the host, closes the page if the browser intercepts it.
let leaves = false;
addEventListener("beforeunload", (event) => {
  if (link && plays && !leaves) event.preventDefault();
});
// The page may be restored from the back-forward cache.
addEventListener("pageshow", () => {
  leaves = false;
});
byId("save").addEventListener("click", () => statisticsLog.save());
byId("full").addEventListener("click", () => void input.full(byId("play")).catch(() => undefined));
byId("relative").addEventListener("click", () => void input.lock().catch(() => undefined));
byId("overlay").addEventListener("click", () => {
  const over = byId("figures-over");
  over.hidden = !over.hidden;
  byId("overlay").setAttribute("aria-pressed", String(!over.hidden));
});
byId("role").addEventListener("click", () => {
  // There is no connection: start one.
  if (!link) void start("");
  link?.sendNotice({ type: "role", play: true, takeOver: true });
});
byId("watch").addEventListener("click", () => {
  link?.sendNotice({ type: "role", play: false, takeOver: false });
});
picture.addEventListener("click", () => {
  if (wantsRelative && plays && !document.pointerLockElement) void input.lock().catch(() => undefined);
});

function eachPicture() {
  if (link && plays) pads.poll(document.hasFocus() && !document.hidden);
  requestAnimationFrame(eachPicture);
}

setInterval(() => {
  if (!link || !plays) return;
  // A hidden page is not drawn, so `eachPicture` no longer polls the pads. This poll releases them.
  if (document.hidden) pads.poll(false);
  const since = performance.now() - sentAt;
  if ((!outbox.isEmpty() && since >= REPEAT) || since >= ALIVE) sendInput();
}, REPEAT);
setInterval(() => {
  link?.sendControl(ping(performance.now()));
  const asked = link?.statistics();
  void asked?.then((report) => {
    figures.statistics(report, performance.now());
    statisticsLog.note(report);
  });
  figures.draw(frames.counts, clock.bound());
}, 1000);
const tellsPictures = "requestVideoFrameCallback" in video;
if (tellsPictures) video.requestVideoFrameCallback(onPicture);
else byId("video").addEventListener("timeupdate", () => notice.hide());
requestAnimationFrame(eachPicture);
if (isPortal)
  showWayBack(document.getElementsByTagName("header")[0]!, () => {
    leaves = true;
  });
addEventListener("pagehide", () => link?.close("the page was closed", false));
void missing().then((why) => {
  if (why === null) return start("");
  showStatus("this browser is not supported");
  notice.impossible(why);
});
