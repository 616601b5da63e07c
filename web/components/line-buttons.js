// What one can do to the line to see it recover: drop it, and have a crowd post meanwhile.

import { button } from "../dom.js";
import { isDevelopment } from "../development.js";
import { t } from "../i18n/index.js";
import { messageOf } from "./states.js";

/** How long the line stays away: long enough that the demonstration writes something meanwhile. */
const DROP_MS = 6_000;

/** The two buttons; `render()` shows the state of the line and the crowd. The crowd goes with the session. */
export function lineButtons(app) {
  const toggle = async () => {
    const second = await app.secondScript();
    if (!second) return;
    app.crowd ??= new second.Crowd(app);
    try {
      await (app.crowd.isHere ? app.crowd.stop() : app.crowd.start());
    } catch (error) {
      app.toast(messageOf(error));
    }
    render();
  };
  const crowd = button({
    class: "button",
    data: { testid: "crowd" },
    text: t("curtain.crowd"),
    title: t("curtain.crowd.hint"),
    hidden: !isDevelopment(),
    onclick: toggle,
  });
  const drop = button({
    class: "button",
    data: { testid: "drop" },
    text: t("curtain.drop"),
    onclick: () => app.client.connection.drop(DROP_MS),
  });
  const render = () => {
    crowd.setAttribute("aria-pressed", String(app.crowd?.isHere ?? false));
    drop.disabled = app.line.state.name !== "live";
  };
  render();
  return { elements: [crowd, drop], render };
}
