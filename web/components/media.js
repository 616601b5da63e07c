// Pictures, video and audio by URL. Other origins get no referrer; what is not HTTPS is a link.

import { addressOf } from "../base.js";
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";

/** Whether the content policy lets the browser load it. */
export function isLoadable(url) {
  return /^https:\/\/|^\/(?!\/)/.test(url);
}

/**
 * A grid of media; the space is reserved before anything is loaded. `open(pictures, at, link)` shows one of the
 * pictures large; the link to it was clicked.
 */
export function mediaGrid(items, open) {
  const number = items.length > 4 || items.length === 3 ? "many" : String(items.length);
  const pictures = items
    .filter(({ type, url }) => type === "image" && isLoadable(url))
    .map(({ url, ...item }) => ({ ...item, url: addressOf(url) }));
  const element = h("div", { class: "media", data: { count: number } }, ...items.map(mediaItem));
  element.addEventListener("click", (event) => {
    const link = event.target.closest("a[aria-haspopup]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open(pictures, [...element.querySelectorAll("a[aria-haspopup]")].indexOf(link), link);
  });
  return element;
}

/** One piece of media. */
export function mediaItem({ type, url: given, alt, width, height }) {
  const url = addressOf(given);
  if (!isLoadable(url)) return broken(url);
  if (type === "image") return picture(url, alt ?? "", width, height);
  const player = h(type === "video" ? "video" : "audio", {
    src: url,
    controls: true,
    preload: "none",
    "aria-label": alt || t(`media.${type}`),
  });
  player.addEventListener("error", () => player.parentElement?.replaceWith(broken(url)), { once: true });
  return shaped(h("div", { class: `media-item ${type}` }, player), width, height);
}

function picture(url, alt, width, height) {
  const image = h("img", { src: url, alt, loading: "lazy", decoding: "async", referrerpolicy: "no-referrer" });
  const link = h(
    "a",
    {
      class: "media-item",
      href: url,
      target: "_blank",
      rel: "noopener noreferrer",
      "aria-label": alt || t("media.image"),
      "aria-haspopup": "dialog",
      data: { testid: "picture" },
    },
    image,
  );
  image.addEventListener("error", () => link.replaceWith(broken(url)), { once: true });
  return shaped(link, width, height);
}

function shaped(element, width, height) {
  const ratio = width / height;
  if (ratio > 0.2 && ratio < 5) element.style.aspectRatio = String(Math.max(ratio, 0.8));
  return element;
}

function broken(url) {
  return h(
    "a",
    { class: "media-item broken", href: url, target: "_blank", rel: "noopener noreferrer" },
    h("span", {}, icon("link"), h("br"), t("media.broken"), " ", h("bdi", { text: hostOf(url) })),
  );
}

function hostOf(url) {
  try {
    return new URL(url, location.href).host;
  } catch {
    return url;
  }
}
