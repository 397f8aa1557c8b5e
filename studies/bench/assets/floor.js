// Lower bound of a page's latency, without video and without host: pictures are drawn at a fixed
// rate, and requestAnimationFrame copies the newest one to a canvas over the page. Any page that
// waits for the browser's paint takes at least that long. Each picture has the bar code of
// crates/media/src/barcode.rs.

/** The cells of the code, row by row. */
const cellsOf = (frame, drawnUs) => {
  const body = (BigInt(frame) << 64n) | (BigInt(drawnUs) << 16n);
  let crc = 0xffff;
  for (let at = 11; at >= 0; at--) {
    crc ^= Number((body >> BigInt(8 * at)) & 255n) << 8;
    for (let i = 0; i < 8; i++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  const bits = ((body << 16n) | BigInt(crc)).toString(2).padStart(112, "0");
  const rows = [`10110001${bits.slice(0, 56)}`, `01001110${bits.slice(56)}`];
  return rows.map((row) => [...row].map((bit) => bit === "1"));
};

/** `beganUs`: this machine's time, in µs, when the page's clock was 0. `desynchronized`: do not wait for the page. */
globalThis.showOwnPictures = ({ width, height, fps, beganUs, desynchronized }) => {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  Object.assign(canvas.style, { position: "fixed", left: 0, top: 0 });
  document.body.append(canvas);
  const context = canvas.getContext("2d", { alpha: false, desynchronized });
  // Two pictures that differ in every pixel, so that each copy changes the whole canvas.
  const pictures = ["#345", "#876"].map((colour) => {
    const picture = new OffscreenCanvas(width, height);
    const brush = picture.getContext("2d", { alpha: false });
    brush.fillStyle = colour;
    brush.fillRect(0, 0, width, height);
    return picture;
  });
  const edge = (index) => Math.floor((index * width) / 80);
  const periodMs = 1000 / fps;
  let newest = 0;
  const copy = () => {
    requestAnimationFrame(copy);
    const frame = Math.floor(performance.now() / periodMs);
    if (frame === newest) return;
    newest = frame;
    context.drawImage(pictures[frame % 2], 0, 0);
    cellsOf(frame, beganUs + Math.round(frame * periodMs * 1000)).forEach((cells, row) =>
      cells.forEach((white, column) => {
        context.fillStyle = white ? "#fff" : "#000";
        const [x, y] = [edge(column), edge(row)];
        context.fillRect(x, y, edge(column + 1) - x, edge(row + 1) - y);
      }),
    );
  };
  requestAnimationFrame(copy);
};
