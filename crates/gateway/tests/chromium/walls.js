// Returns the walls of world.rs on the page's canvas: for each part of the canvas's width, from left to right, the
// colours in the middle row, and the pixels at which each colour begins and ends. Reads the canvas in an animation
// frame, after the page has drawn.
globalThis.readWalls = (parts) =>
  new Promise((done) =>
    requestAnimationFrame(() => {
      const canvas = document.querySelector("#reality");
      const copy = document.createElement("canvas");
      [copy.width, copy.height] = [canvas.width, canvas.height];
      const context = copy.getContext("2d", { willReadFrequently: true });
      context.drawImage(canvas, 0, 0);
      const { data } = context.getImageData(0, copy.height / 2, copy.width, 1);
      const colour = (x) => [0, 1, 2].map((channel) => data[4 * x + channel] > 128);
      const width = copy.width / parts;
      const all = Array.from({ length: parts }, (_, part) => {
        const walls = [];
        for (let x = 0; x < width; x++) {
          const now = colour(part * width + x);
          const last = walls[walls.length - 1];
          if (last && String(last.colour) === String(now)) last.to = x + 1;
          else walls.push({ colour: now, from: x, to: x + 1 });
        }
        // Where two walls meet, compression blurs a few pixels, which are not a wall.
        return walls.filter(({ from, to }) => to - from > 8);
      });
      const above = context.getImageData(width * (parts - 0.5), 0.06 * copy.height, 1, 1).data[0] > 128;
      done({ width, all, above });
    }),
  );
