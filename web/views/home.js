// Home: writing, and the timeline. As long as that is empty, what everybody wrote is below it.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { Compose } from "../components/compose.js";
import { Feed } from "../components/feed.js";
import { empty } from "../components/states.js";
import { exploreFeed } from "./everybody.js";

export function homeView(app) {
  const { timeline } = app.client;
  const compose = new Compose(app, "home");
  const explore = () => h("a", { class: "button primary", href: paths.explore(), text: t("home.explore") });
  const feed = new Feed(app, timeline, {
    label: t("home"),
    empty: () => empty(t("home.empty"), t("home.empty.text"), explore()),
    showsLine: true,
  });
  const element = h("div", { class: "view home" }, compose.element, feed.element);
  let everybody = null;
  const forget = () => {
    everybody?.stop();
    everybody?.element.remove();
    everybody = null;
  };
  const stopWatching = timeline.on("change", () => {
    const isEmpty = timeline.state === "ready" && timeline.entries.length === 0 && !timeline.hasOlder;
    if (!isEmpty) return forget();
    if (everybody) return;
    everybody = exploreFeed(app);
    element.append(everybody.element);
  });
  return {
    title: t("home"),
    feed,
    compose,
    element,
    top: () => {
      timeline.showWaiting();
      everybody?.timeline.reload();
    },
    resume: () => {
      feed.resume();
      everybody?.feed.resume();
      everybody?.timeline.reload();
    },
    pause: () => {
      feed.pause();
      everybody?.feed.pause();
    },
    close: () => {
      stopWatching();
      forget();
      feed.close();
    },
  };
}
