// What stands for a post or comment with words that the reader mutes, until they want to see it.

import { button, h, setText, show } from "../dom.js";
import { t } from "../i18n/index.js";

/** Covers an element while `update(ids)` names filters. The style hides what is covered. */
export function coverOf(app, element) {
  let isOpen = false;
  const words = h("span", { text: t("filtered") });
  const open = () => {
    isOpen = true;
    update();
    element.focus({ preventScroll: true });
  };
  const reveal = button({ class: "link expand", text: t("show"), data: { testid: "show-filtered" }, onclick: open });
  const cover = h("p", { class: "filtered", data: { testid: "filtered" } }, words, reveal);
  const update = (ids) => {
    const isCovered = Boolean(ids) && !isOpen;
    show(cover, isCovered);
    element.toggleAttribute("data-filtered", isCovered);
    if (isCovered) app.filterText(ids, element).then((text) => setText(words, text), () => {});
  };
  return { element: cover, update };
}
