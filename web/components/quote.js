// The card of a post that another one quotes: one level, without what it quotes itself.

import { addressOf } from "../base.js";
import { bidi, h } from "../dom.js";
import { timeElement } from "../format.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { isLoadable } from "./media.js";

export function quoteCard({ client }, { id, state, post }) {
  if (!post) return h("p", { class: "link-card quote", text: t(`quote.${state}`), data: { testid: "quote" } });
  const { author, text, media: [first] = [], created_at: at } = post;
  const source = first?.type === "image" && isLoadable(first.url) && addressOf(first.url);
  const words = text || first?.alt || (first ? t(`media.${first.type}`) : "");
  const name = h("b", {}, bidi(client.people.get(author).name));
  return h(
    "a",
    { class: "link-card quote", href: paths.post(id), data: { testid: "quote" } },
    h(
      "span",
      {},
      h("span", { class: "meta" }, name, ` @${author} · `, timeElement(at)),
      h("span", { class: "words", dir: "auto", text: words }),
    ),
    source && h("img", { src: source, alt: "", loading: "lazy", referrerpolicy: "no-referrer" }),
  );
}
