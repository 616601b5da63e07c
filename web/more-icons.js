// The icons that Home does not need. They come with the second script.

import { icon } from "./icons.js";

const PATHS = {
  person: ["M9 5.2a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4z", "M3 19a6 6 0 0 1 12 0", "M18 8v6M15 11h6"],
  reply: ["M9.4 6 4 11.2l5.4 5.2", "M4.4 11.2H14a6 6 0 0 1 6 6V19"],
  lock: ["M6 11h12v9H6z", "M8.6 11V8a3.4 3.4 0 0 1 6.8 0v3"],
  at: ["M12 8.4a3.6 3.6 0 1 0 0 7.2 3.6 3.6 0 0 0 0-7.2z", "M15.6 8.4v5a2.4 2.4 0 0 0 4.8 0V12a8.4 8.4 0 1 0-3.4 6.8"],
  quote: ["M10 7H5.6v5H10zM10 12c0 2.8-1.4 4.4-3.6 5", "M18.4 7H14v5h4.4zM18.4 12c0 2.8-1.4 4.4-3.6 5"],
};

/** As `icon`, which knows the others. */
export const moreIcon = (name) => icon(name, PATHS[name]);
