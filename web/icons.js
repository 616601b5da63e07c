// The icons: strokes on a grid of 24, in the colour of the text around them.

import { svg } from "./dom.js";

const PATHS = {
  home: ["M4 11.2 12 4l8 7.2V20h-5.4v-5.6H9.4V20H4z"],
  search: ["M10.8 4.2a6.6 6.6 0 1 0 0 13.2 6.6 6.6 0 0 0 0-13.2z", "m15.8 15.8 4.4 4.4"],
  bell: ["M6.4 16.6V11a5.6 5.6 0 0 1 11.2 0v5.6l1.7 1.9H4.7z", "M10 20.6h4"],
  hash: ["M9.8 4 7.4 20", "M16.6 4l-2.4 16", "M4.6 9h15.6", "M3.8 15h15.6"],
  star: ["m12 4.2 2.4 5 5.4.7-4 3.8 1 5.4-4.8-2.6-4.8 2.6 1-5.4-4-3.8 5.4-.7z"],
  user: ["M12 4.4a3.7 3.7 0 1 0 0 7.4 3.7 3.7 0 0 0 0-7.4z", "M4.8 20a7.2 7.2 0 0 1 14.4 0"],
  gear: [
    "M12 8.8a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4z",
    "M12 3.4v2.8M12 17.8v2.8M3.4 12h2.8M17.8 12h2.8M5.9 5.9l2 2M16.1 16.1l2 2M18.1 5.9l-2 2M7.9 16.1l-2 2",
  ],
  pen: ["m5 19 1-4L16.4 4.6l3 3L9 18z", "m14.2 6.8 3 3"],
  heart: [
    "M12 20S4 15 4 9.2C4 6.6 6 4.8 8.2 4.8c1.6 0 3 .9 3.8 2.4.8-1.5 2.2-2.4 3.8-2.4" +
      "C18 4.8 20 6.6 20 9.2 20 15 12 20 12 20z",
  ],
  comment: ["M4.4 5h15.2v11.4H10L5.6 20v-3.6H4.4z"],
  more: ["M6 12h.01M12 12h.01M18 12h.01"],
  image: ["M4 5h16v14H4z", "m4.4 16.6 4.4-4.4 3.4 3.4 2.6-2.4 4.8 4.4", "M9 8.6h.01"],
  pin: ["M12 21s6.4-6 6.4-10.8a6.4 6.4 0 1 0-12.8 0C5.6 15 12 21 12 21z", "M12 8.2a2 2 0 1 0 0 4 2 2 0 0 0 0-4z"],
  globe: [
    "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16z",
    "M4 12h16",
    "M12 4c2.4 2.2 3.4 5 3.4 8s-1 5.8-3.4 8c-2.4-2.2-3.4-5-3.4-8s1-5.8 3.4-8z",
  ],
  lines: ["M4 7h16M4 12h10M4 17h13"],
  down: ["m7 10 5 5 5-5"],
  back: ["M19 12H5.4", "m11 6-6 6 6 6"],
  close: ["m6 6 12 12M18 6 6 18"],
  repost: ["M4.6 9.6h13.6", "m14.4 5.6 4 4", "M19.4 14.4H5.8", "m9.6 18.4-4-4"],
  link: [
    "M10 14a4 4 0 0 0 6 .4l3-3a4 4 0 0 0-5.8-5.6l-1.6 1.6",
    "M14 10a4 4 0 0 0-6-.4l-3 3a4 4 0 0 0 5.8 5.6l1.6-1.6",
  ],
};

/** An icon; decorative, so it has no name of its own. Those that Home does not need are in more-icons.js. */
export function icon(name, paths = PATHS[name]) {
  const properties = { class: `icon icon-${name}`, viewBox: "0 0 24 24", "aria-hidden": "true" };
  return svg("svg", properties, ...paths.map((d) => svg("path", { d })));
}

/** The mark: a line with two nodes, the upper one filled. */
export function mark() {
  return svg(
    "svg",
    { class: "mark", viewBox: "0 0 32 32", "aria-hidden": "true" },
    svg("path", { class: "mark-line", d: "M9 3v26" }),
    svg("circle", { class: "mark-node", cx: 9, cy: 10, r: 4 }),
    svg("circle", { class: "mark-hollow", cx: 9, cy: 22, r: 4 }),
    svg("path", { class: "mark-words", d: "M17 10h11M17 22h8" }),
  );
}
