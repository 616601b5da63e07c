// The card of a link, from what the post carries in `data.link`: nothing about a link is fetched.

import { addressOf } from "../base.js";
import { h } from "../dom.js";
import { withoutDirections } from "../text.js";
import { isLoadable } from "./media.js";

const textOf = (value) => (typeof value === "string" ? value.trim() : "");

/** The card of `{url, title, description, image}`; null without a title, or an address to follow. */
export function linkCard(link) {
  const [url, title, description, image] = ["url", "title", "description", "image"].map((name) => textOf(link?.[name]));
  if (title === "" || !/^https?:\/\//i.test(url) || !URL.canParse(url)) return null;
  const address = new URL(url);
  const source = isLoadable(image) && addressOf(image);
  const picture = source && h("img", { src: source, alt: "", loading: "lazy", referrerpolicy: "no-referrer" });
  return h(
    "a",
    {
      class: "link-card",
      href: address.href,
      target: "_blank",
      rel: "noopener noreferrer",
      data: { testid: "link-card" },
    },
    picture,
    h(
      "span",
      {},
      h("span", { class: "meta", text: address.host }),
      h("strong", { dir: "auto", text: withoutDirections(title) }),
      description && h("span", { dir: "auto", text: withoutDirections(description) }),
    ),
  );
}
