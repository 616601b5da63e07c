// The pictures of a post, one at a time and large. Escape, Back and a click beside the picture close it.

import { button, h, setText, show } from "../dom.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { openDialog } from "./dialog.js";

/** Shows `pictures`, beginning with the one at `at`; the focus returns to `opener`. */
export function openLightbox(pictures, at, opener) {
  // A picture that was taken off, because it did not load, is not counted among the links.
  let current = Math.min(Math.max(0, at), pictures.length - 1);
  const place = h("div", { class: "lightbox-place" });
  const caption = h("p", { class: "caption", dir: "auto", role: "status", data: { testid: "lightbox-alt" } });
  const step = (by) => {
    current = (current + by + pictures.length) % pictures.length;
    render();
  };
  const arrow = (by, name) =>
    button(
      { class: `icon-button ${name}`, "aria-label": t(`lightbox.${name}`), onclick: () => step(by) },
      icon("back"),
    );
  const arrows = pictures.length > 1 ? [arrow(-1, "previous"), arrow(1, "next")] : [];
  const body = h("div", { class: "lightbox-body" }, ...arrows, place, caption);
  const onClose = () => opener.isConnected && opener.focus({ preventScroll: true });
  const { element, close } = openDialog("", body, { bare: true, testid: "lightbox", onClose });
  const render = () => {
    const { url, alt } = pictures[current];
    const image = h("img", { src: url, alt: alt || t("media.image"), referrerpolicy: "no-referrer" });
    const broken = () => image.replaceWith(h("p", { text: `${t("media.broken")} ${url}` }));
    image.addEventListener("error", broken, { once: true });
    place.replaceChildren(image);
    setText(element.querySelector("h2"), tm("lightbox.title", { at: current + 1, of: pictures.length }));
    setText(caption, alt ?? "");
    show(caption, Boolean(alt));
  };
  element.classList.add("lightbox");
  element.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || arrows.length === 0) return;
    event.preventDefault();
    step(by);
  });
  place.addEventListener("click", ({ target }) => target === place && close());
  render();
}
