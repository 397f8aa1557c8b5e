// Rotations and homographies: maps a picture that was drawn for one orientation to another.
//
// Axes are those of OpenXR and WebXR: x to the right, y up, -z ahead. Matrices are 3x3 and column-major, as in WebGL.
// Positions on the display range from -1 to 1, with y up, as in WebGL. Positions in a picture range from 0 to 1, with v
// down, in the order of the picture's rows.

export type Vector = [number, number, number];
/** x, y, z, w. */
export type Quaternion = [number, number, number, number];
export type Matrix = number[];

/** Tangents of the angles between a view's axis and its four sides. Left and down are usually negative. */
export interface Tangents {
  left: number;
  right: number;
  up: number;
  down: number;
}

/** A rotation in radians around axis 0 (x), 1 (y) or 2 (z). */
export function around(axis: 0 | 1 | 2, angle: number): Quaternion {
  const turned: Quaternion = [0, 0, 0, Math.cos(angle / 2)];
  turned[axis] = Math.sin(angle / 2);
  return turned;
}

/** The rotation b, followed by the rotation a. */
export function times([ax, ay, az, aw]: Quaternion, [bx, by, bz, bw]: Quaternion): Quaternion {
  return [
    aw * bx + ax * bw + ay * bz - az * by,
    aw * by - ax * bz + ay * bw + az * bx,
    aw * bz + ax * by - ay * bx + az * bw,
    aw * bw - ax * bx - ay * by - az * bz,
  ];
}

export function inverse([x, y, z, w]: Quaternion): Quaternion {
  return [-x, -y, -z, w];
}

/** Mean of similar orientations. */
export function middle(all: Quaternion[]): Quaternion {
  const sum = all.reduce<Quaternion>((before, next) => {
    // A quaternion and its negative are the same rotation.
    const sign = next.reduce((dot, v, n) => dot + v * all[0][n], 0) < 0 ? -1 : 1;
    return before.map((v, n) => v + sign * next[n]) as Quaternion;
  }, [0, 0, 0, 0]);
  const length = Math.hypot(...sum);
  return sum.map((v) => v / length) as Quaternion;
}

/** The rotation around this vector by its length in radians. */
export function exponential([x, y, z]: Vector): Quaternion {
  const angle = Math.hypot(x, y, z);
  // sin(a / 2) / a, which is 1 / 2 for small angles.
  const by = angle < 1e-6 ? 0.5 : Math.sin(angle / 2) / angle;
  return [x * by, y * by, z * by, Math.cos(angle / 2)];
}

/** A vector along the axis of a rotation. Its length is the angle in radians, at most half a turn. */
export function logarithm(q: Quaternion): Vector {
  const [x, y, z, w] = q[3] < 0 ? q.map((v) => -v) : q;
  const sine = Math.hypot(x, y, z);
  const by = sine < 1e-6 ? 2 : (2 * Math.atan2(sine, w)) / sine;
  return [x * by, y * by, z * by];
}

/** The yaw of an orientation. */
export function heading([x, y, z, w]: Quaternion): number {
  return Math.atan2(2 * (w * y + x * z), 1 - 2 * (x * x + y * y));
}

export function rotation([x, y, z, w]: Quaternion): Matrix {
  return [
    1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w),
    2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w),
    2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y),
  ];
}

/** The map b, followed by the map a. */
export function product(a: Matrix, b: Matrix): Matrix {
  const all = [];
  for (let column = 0; column < 3; column += 1)
    for (let row = 0; row < 3; row += 1)
      all.push(a[row] * b[3 * column] + a[3 + row] * b[3 * column + 1] + a[6 + row] * b[3 * column + 2]);
  return all;
}

export function applied(m: Matrix, [x, y, z]: Vector): Vector {
  return [m[0] * x + m[3] * y + m[6] * z, m[1] * x + m[4] * y + m[7] * z, m[2] * x + m[5] * y + m[8] * z];
}

/** The inverse; `null` if the matrix is singular. */
export function inverted([a, d, g, b, e, h, c, f, i]: Matrix): Matrix | null {
  const determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
  if (determinant === 0) return null;
  const adjugate = [
    e * i - f * h, f * g - d * i, d * h - e * g,
    c * h - b * i, a * i - c * g, b * g - a * h,
    b * f - c * e, c * d - a * f, a * e - b * d,
  ];
  return adjugate.map((value) => value / determinant);
}

/** From a display position to its ray in the view's axes. */
export function rays({ left, right, up, down }: Tangents): Matrix {
  return [(right - left) / 2, 0, 0, 0, (up - down) / 2, 0, (right + left) / 2, (up + down) / 2, -1];
}

/** From a ray in a view's axes to its picture position; the third component is positive in front of the view. */
export function placed({ left, right, up, down }: Tangents): Matrix {
  const [width, height] = [right - left, up - down];
  return [1 / width, 0, 0, 0, -1 / height, 0, left / width, -up / height, -1];
}

/** Tangents of a camera's projection matrix (4×4, of WebXR). */
export function tangentsOf(m: Float32Array): Tangents {
  return {
    left: (m[8] - 1) / m[0],
    right: (m[8] + 1) / m[0],
    up: (m[9] + 1) / m[5],
    down: (m[9] - 1) / m[5],
  };
}

/**
 * Homography from display positions to picture positions, for a picture that was drawn with the orientation `drawn` and
 * is viewed with the orientation `seen`.
 */
export function reaimed(drawn: Quaternion, shows: Tangents, seen: Quaternion, through: Tangents): Matrix {
  const turned = rotation(times(inverse(drawn), seen));
  return product(placed(shows), product(turned, rays(through)));
}

/**
 * Homography from display positions to picture positions, for a flat screen. The screen is given by its upper left
 * corner and its vectors to the right and down. `null` if the screen is seen edge-on.
 */
export function onScreen(
  [corner, across, along]: [Vector, Vector, Vector],
  eye: Vector,
  seen: Quaternion,
  through: Tangents,
): Matrix | null {
  const away = corner.map((at, axis) => at - eye[axis]);
  const found = inverted([...across, ...along, ...away]);
  return found && product(found, product(rotation(seen), rays(through)));
}
