// Home and the user's lists side by side: a tab leads to each. Without lists there are no tabs.

import { arrange } from "../arrange.js";
import { bidi, h, setText, show } from "../dom.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { listsOf } from "../lists.js";
import { paths } from "../router.js";

/** Fills an element with the tabs; `current` is the list that is shown, null for Home. */
export function listTabs(app, element, current = null) {
  const lists = listsOf(app);
  const label = tm("lists.edit");
  const edit = h(
    "a",
    { class: "icon-button", href: paths.lists(), "aria-label": label, title: label, data: { testid: "lists-edit" } },
    icon("gear"),
  );
  const tab = (id, name) =>
    h(
      "a",
      {
        href: id === null ? paths.home() : paths.list(id),
        "aria-current": id === current ? "page" : null,
        data: { testid: "list-tab" },
      },
      name,
    );
  const strip = h("div", { class: "tab-bar" });
  const tabs = new Map([[null, tab(null, t("home"))]]);
  const render = () => {
    show(element, lists.items.length > 0);
    for (const { id, name } of lists.items) {
      const known = tabs.get(id);
      const title = bidi(name);
      if (!known) tabs.set(id, tab(id, title));
      else setText(known.firstChild, title.textContent);
    }
    arrange(strip, [null, ...lists.items.map(({ id }) => id)].map((id) => tabs.get(id)));
  };
  element.setAttribute("aria-label", tm("lists.tabs"));
  element.append(strip, edit);
  render();
  const stop = lists.on(render);
  /** It is in the document again: the tab of what is shown is in sight. */
  const resume = () => {
    lists.refresh();
    const { offsetLeft = 0, offsetWidth = 0 } = tabs.get(current) ?? {};
    strip.scrollLeft = offsetLeft + offsetWidth / 2 - strip.clientWidth / 2;
  };
  resume();
  return { element, resume, stop };
}
