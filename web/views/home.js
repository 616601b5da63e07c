// Home: writing, and the timeline.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { Compose } from "../components/compose.js";
import { Feed } from "../components/feed.js";
import { empty } from "../components/states.js";

export function homeView(app) {
  const compose = new Compose(app);
  const explore = () => h("a", { class: "button primary", href: paths.explore(), text: t("home.explore") });
  const feed = new Feed(app, app.client.timeline, {
    label: t("home"),
    empty: () => empty(t("home.empty"), t("home.empty.text"), explore()),
    showsLine: true,
  });
  return {
    title: t("home"),
    feed,
    compose,
    element: h("div", { class: "view home" }, compose.element, feed.element),
    top: () => app.client.timeline.showWaiting(),
    resume: () => feed.resume(),
    pause: () => feed.pause(),
    close: () => feed.close(),
  };
}
