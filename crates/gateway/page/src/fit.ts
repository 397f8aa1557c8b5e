// Whether the picture is shown as it is. Where its place is a pixel or two larger or smaller than it, scaling would blur
// all of it, and without a GPU would take a browser longer than all else that it does with a picture (1280x720: 10 ms,
// `openuvr bench peers`).

/** Pixels. In a kiosk without a window manager Chromium leaves a page one less than the display has. */
const NEARLY = 2;

/** Keeps the class `exact` of the picture's place. Its upper left corner is then the picture's. */
export function keepExact(place: HTMLElement, video: HTMLVideoElement) {
  const look = () => {
    const { videoWidth, videoHeight } = video;
    const off = Math.max(Math.abs(place.clientWidth - videoWidth), Math.abs(place.clientHeight - videoHeight));
    place.classList.toggle("exact", devicePixelRatio === 1 && off <= NEARLY);
  };
  new ResizeObserver(look).observe(place);
  video.addEventListener("resize", look);
}
