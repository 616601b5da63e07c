// The texts of what is not on Home, or few see: pushes, private accounts, reports, moderation. They come with the
// second script.

import { addTexts, t, tNodes } from "./index.js";
import { moreEn } from "./more-en.js";
import { moreZh } from "./more-zh.js";

addTexts({ en: moreEn, zh: moreZh });

/** As `t` and `tNodes`, which know these texts once this module has run. */
export const tm = t;
export const tmNodes = tNodes;
