// Home: writing, and the timeline, with tabs for the lists of the user. As long as it is empty, what everybody wrote
// is below it.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { paths } from "../router.js";
import { Compose } from "../components/compose.js";
import { Feed } from "../components/feed.js";
import { empty } from "../components/states.js";
import { exploreFeed } from "./everybody.js";

/** `second` resolves with the second script, which has the tabs. */
export function homeView(app, second) {
  const { timeline } = app.client;
  const compose = new Compose(app, "home");
  const explore = () => h("a", { class: "button primary", href: paths.explore(), text: t("home.explore") });
  const feed = new Feed(app, timeline, {
    label: t("home"),
    empty: () => empty(t("home.empty"), t("home.empty.text"), explore()),
    showsLine: true,
  });
  // Their room is kept, so that nothing moves when they come.
  const place = h("nav", { class: "card list-tabs", hidden: !app.session.lists?.length });
  let tabs = null;
  second.then((more) => {
    if (app.home === view) tabs = more.listTabs(app, place);
  });
  const element = h("div", { class: "view home" }, place, compose.element, feed.element);
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
  const view = {
    title: t("home"),
    feed,
    compose,
    element,
    top: () => {
      timeline.showWaiting();
      everybody?.timeline.reload();
    },
    resume: () => {
      tabs?.resume();
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
      tabs?.stop();
      forget();
      feed.close();
    },
  };
  return view;
}
