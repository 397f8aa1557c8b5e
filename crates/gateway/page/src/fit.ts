// Shows the picture unscaled if the browser does not zoom the page and the sizes of the picture and of its element
// differ by at most two pixels. Scaling would blur the picture. Without a GPU, scaling would also cost more time than
// all other processing of the picture (1280x720: 10 ms, `openuvr bench peers`).

/** In pixels. In a kiosk without a window manager, Chromium's page is one pixel smaller than the display. */
const NEARLY = 2;

/** Updates the class `exact` of the picture's element, which aligns the upper left corners. */
export function keepExact(place: HTMLElement, video: HTMLVideoElement) {
  const look = () => {
    const { videoWidth, videoHeight } = video;
    const off = Math.max(Math.abs(place.clientWidth - videoWidth), Math.abs(place.clientHeight - videoHeight));
    place.classList.toggle("exact", devicePixelRatio === 1 && off <= NEARLY);
  };
  new ResizeObserver(look).observe(place);
  video.addEventListener("resize", look);
}
