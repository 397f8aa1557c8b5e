// The page: log in, connect, play.

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
import { enter, isPortal, showWayBack, title } from "./portal";
import { Sound } from "./sound";
import { missing } from "./support";
import { Tabs } from "./tabs";
import { Wishes } from "./wishes";
import { Reality } from "./xr/reality";
import { CLIPBOARD_PIECE, CLIPBOARD_WAYS, CURSOR_SHAPE } from "./wire";
import { ping, pong, read, reports, type Haptic, type InputEvent, type Rumble } from "./wire";

/** Between two attempts to connect again, in milliseconds. */
const AGAIN = 2000;

/** How often the portal is asked whether its session is over: one that is stopped may still save. A guess. */
const ENDS_WITHIN = 15;

/** What is not acknowledged is sent again after this, in milliseconds. */
const REPEAT = 20;

/** A player that holds nothing says so now and then, in milliseconds: silence releases everything. */
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
// page.css hides what shows figures at a portal otherwise.
document.documentElement.toggleAttribute("data-figures", query.has("figures"));

let link: Link | null = null;
let plays = false;
/** What the person is told of the role, while nothing else is to be said. */
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
const wishes = new Wishes(byId<HTMLSelectElement>("size"), byId<HTMLSelectElement>("bitrate"), () => link && connect());
const input = new Input(picture, video, byId<HTMLTextAreaElement>("keys"), {
  plays: () => plays,
  push,
  pointed: (x, y) => cursor.pointed(x, y),
});
const cursor = new Cursor(byId<HTMLCanvasElement>("cursor"), picture, input);
const clipboard = new Clipboard(
  byId("clipboard"),
  () => plays,
  (message) => link?.tellBytes(message) ?? Promise.resolve(),
  say,
);
const reality = new Reality(
  byId<HTMLCanvasElement>("reality"),
  video,
  { look: byId("look"), eyes: byId("eyes"), enter: byId("enter") },
  {
    plays: () => plays,
    say: (message) => link?.say(message),
    words: say,
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
    (all) => link?.say(reports(all)),
    (shown) => figures.shown(shown),
  );
}

function say(words: string) {
  state.textContent = words;
}

function sendInput() {
  sentAt = performance.now();
  link?.say(outbox.message());
}

function connect() {
  link?.close("another connection begins", false);
  roleWords = "";
  clipboard.forget();
  input.forget();
  outbox = newOutbox();
  clock = new HostClock();
  hostNames = new Map();
  frames = newFrames();
  const made = new Link(
    {
      state(words) {
        // Such events come late: what the host says of the role is newer.
        if (roleWords === "") say(words);
        if (words === "disconnected" || words === "failed") notice.reconnecting("No picture comes from the host.");
      },
      video(track) {
        video.srcObject = new MediaStream([track]);
        void video.play().catch(() => undefined);
      },
      sound: (track) => sound.take(track),
      control: (message) => read(message, heard),
      told,
      open() {
        backToPicture();
      },
      closed(why, again) {
        if (link !== made) return;
        link = null;
        plays = false;
        byId("watch").hidden = true;
        reality.closed();
        say(why);
        if (again) {
          notice.reconnecting(sentence(why));
          beginLater("");
        } else {
          notice.ended(sentence(why));
          if (isPortal) void lookWhetherOver();
        }
      },
    },
    `reports${watch ? "&role=watch" : ""}${wishes.query()}`,
    relayed,
  );
  link = made;
}

const heard = {
  ping(asked: bigint) {
    const now = performance.now();
    link?.say(pong(asked, now, performance.now()));
  },
  pong(asked: bigint, received: bigint, answered: bigint) {
    const [t1, t2, t3] = [asked, received, answered].map((at) => Number(at) / 1e6);
    clock.note(t1, t2, t3, performance.now());
  },
  inputSeen(through: number) {
    outbox.seen(through);
  },
  cursorMoved: (serial: number, at: { x: number; y: number } | null) => cursor.moved(serial, at),
  frames: (left: Parameters<Frames["heard"]>[0]) => frames.heard(left),
  rumble: (said: Rumble) => pads.rumble(said),
  haptic: (felt: Haptic) => reality.felt(felt),
  views: (message: DataView) => reality.heard(message),
  inputNumbers(page: number, host: number) {
    hostNames.set(host, page);
    hostNames.delete(host - 1024);
  },
};

function told(message: string | ArrayBuffer) {
  if (typeof message !== "string") {
    toldBytes(new DataView(message));
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
      clipboard.roleChanged();
      reality.changed();
      byId("role").hidden = plays;
      byId("watch").hidden = !plays;
      roleWords = plays ? "you play" : (news.why ?? "you watch");
      say(roleWords);
      break;
    case "refused":
      say(news.why);
      break;
    case "relative":
      wantsRelative = news.relative;
      byId("relative").hidden = !wantsRelative;
      if (!wantsRelative && document.pointerLockElement) document.exitPointerLock();
      break;
    case "shown":
      say(news.shown ? roleWords : "the window at the host is hidden");
      break;
    case "decision":
      figures.decided(news.words);
  }
}

function toldBytes(message: DataView) {
  switch (message.getUint8(0)) {
    case CURSOR_SHAPE:
      cursor.shape(message);
      break;
    case CLIPBOARD_WAYS:
      clipboard.ways(message);
      break;
    case CLIPBOARD_PIECE:
      clipboard.piece(message);
  }
}

/** The next attempt, of which there is one at a time. */
let next: number | null = null;

function beginLater(pin: string) {
  if (next !== null) clearTimeout(next);
  next = window.setTimeout(() => void begin(pin), AGAIN);
}

/** An attempt is under way. */
let begins = false;

async function begin(pin: string) {
  if (next !== null) clearTimeout(next);
  next = null;
  if (begins) return;
  begins = true;
  try {
    await beginOnce(pin);
  } finally {
    begins = false;
  }
}

async function beginOnce(pin: string) {
  const name = byId<HTMLInputElement>("name");
  if (name.value === "") name.value = localStorage.getItem("name") ?? usualName();
  let answer: Awaited<ReturnType<typeof logIn>>;
  try {
    answer = isPortal ? await enter() : await logIn(name.value, pin);
  } catch {
    const why = isPortal ? "the portal does not answer" : "the host does not answer";
    say(why);
    notice.reconnecting(sentence(why));
    beginLater("");
    return;
  }
  byId("host").textContent = host;
  document.title = `${isPortal ? title : host} – OpenUVR`;
  if ("over" in answer) {
    tellOver(answer);
    return;
  }
  if ("later" in answer) {
    say(answer.later);
    notice.waiting(sentence(answer.later));
    // The host may have taken the PIN: a second time it would be a wrong one.
    beginLater("");
    return;
  }
  if ("refused" in answer) {
    say("not logged in");
    notice.hide();
    // The first refusal only says that a PIN is needed.
    byId("refused").textContent = pin === "" && !hasTicket() ? "" : answer.refused;
    form.hidden = false;
    byId("pin").focus();
    return;
  }
  localStorage.setItem("name", name.value);
  form.hidden = true;
  if (!isPortal) say(`logged in as ${answer.device}`);
  connect();
}

function tellOver({ over, title }: { over: string; title: string }) {
  say(over);
  notice.over(title, sentence(over));
  // The way back is in the bar.
  if (document.fullscreenElement) void document.exitFullscreen();
}

/** Asks the portal whether what has ended is its session, so that there is nothing to connect to again. */
async function lookWhetherOver() {
  for (let attempt = 0; attempt < ENDS_WITHIN; attempt += 1) {
    const answer = await enter().catch(() => null);
    // The person has connected again meanwhile.
    if (link || begins) return;
    if (answer && "over" in answer) {
      tellOver(answer);
      return;
    }
    await new Promise((wake) => setTimeout(wake, AGAIN));
    if (link || begins) return;
  }
}

function onPicture(_: number, meta: VideoFrameCallbackMetadata) {
  // One may still come when the connection is over.
  if (link) notice.hide();
  frames.presented(meta);
  reality.picture(meta);
  video.requestVideoFrameCallback(onPicture);
}

/** Whoever has pressed a button of the page goes on at the picture. */
function backToPicture() {
  if (!byId("play").hidden && form.hidden && !menu.matches(":popover-open")) input.focus();
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void begin(byId<HTMLInputElement>("pin").value.replace(/\s/g, ""));
});
keepExact(picture, video);
new Tabs(document.querySelector("nav")!, backToPicture);
offerChords(byId("chords"), (keys) => input.chord(keys));
byId("again").addEventListener("click", () => {
  notice.reconnecting("");
  void begin("");
});
// A button is pressed by the mouse without taking the focus; by keys it gives it back.
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
// Ctrl+W, meant for the host, closes the page where the browser keeps it to itself.
let leaves = false;
addEventListener("beforeunload", (event) => {
  if (link && plays && !leaves) event.preventDefault();
});
// The page can be shown once more as it was left.
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
  // It is over: another session begins.
  if (!link) void begin("");
  link?.tell({ type: "role", play: true, takeOver: true });
});
byId("watch").addEventListener("click", () => {
  link?.tell({ type: "role", play: false, takeOver: false });
});
picture.addEventListener("click", () => {
  if (wantsRelative && plays && !document.pointerLockElement) void input.lock().catch(() => undefined);
});

function eachPicture() {
  if (link && plays) pads.look(document.hasFocus() && !document.hidden);
  requestAnimationFrame(eachPicture);
}

setInterval(() => {
  if (!link || !plays) return;
  // No picture is drawn of a page that is hidden: what was held is released.
  if (document.hidden) pads.look(false);
  const since = performance.now() - sentAt;
  if ((!outbox.isEmpty() && since >= REPEAT) || since >= ALIVE) sendInput();
}, REPEAT);
setInterval(() => {
  link?.say(ping(performance.now()));
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
  if (why === null) return begin("");
  say("this browser can't play");
  notice.impossible(why);
});
