// An address that leads nowhere.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { empty } from "../components/states.js";

export function notFoundView() {
  return { title: t("not-found"), element: h("div", { class: "view" }, h("section", { class: "card" }, notFound())) };
}

/** What stands in for something that does not exist, or that the reader cannot see. */
export function notFound() {
  const home = h("a", { class: "button primary", href: paths.home(), text: t("home") });
  return empty(t("not-found.title"), t("not-found.text"), home);
}
