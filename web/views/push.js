// Push notifications: whether this browser receives them, what is pushed and when, and all devices that do.

import { button, h, setText } from "../dom.js";
import { timeElement } from "../format.js";
import { t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { confirmDialog } from "../components/dialog.js";
import { preferencesForm } from "../components/push-preferences.js";
import { failure, messageOf, showWhenSlow, skeletons } from "../components/states.js";
import { isPushPossible } from "../push.js";
import { enablePush, PushError } from "../push-setup.js";
import { paths } from "../router.js";

const PLATFORMS = { fcm: "Firebase", apns: "Apple", webpush: "Web Push", unifiedpush: "UnifiedPush" };

/** What the server pushes with, and to: its public key for browsers or null, and the devices of the user. */
async function readPush({ client: { connection } }) {
  const [{ vapid_public_key: key = null }, { items }] = await Promise.all([
    connection.rpc("push.key"),
    connection.rpc("devices.list"),
  ]);
  // Without the key, only apps can be pushed to; one of them is among the devices, if the server pushes to them.
  return { key, devices: items, isServed: key !== null || items.length > 0 };
}

export function pushView(app) {
  const section = (title, ...children) =>
    h("section", { class: "card settings" }, h("h2", { text: title }), ...children);
  const here = h("div", { class: "push-here", data: { testid: "push-here" } });
  const devices = h("div", { data: { testid: "devices" } });
  const preferences = h("div");
  const what = section(tm("push.what"), preferences);
  const all = section(tm("push.devices"), h("p", { text: tm("push.devices.text") }), devices);
  const list = async () => {
    try {
      const { items } = await app.client.connection.rpc("devices.list");
      devices.replaceChildren(...deviceRows(app, items, list));
    } catch (error) {
      devices.replaceChildren(failure(error, list));
    }
  };
  const load = async () => {
    const shown = showWhenSlow(here, () => skeletons(1));
    try {
      const [{ key, devices: items, isServed }, wanted] = await Promise.all([
        readPush(app),
        app.client.connection.rpc("push.preferences"),
      ]);
      await shown();
      const control = new HereControl(app, key, here, list);
      view.control = control;
      control.render();
      devices.replaceChildren(...deviceRows(app, items, list));
      preferences.replaceChildren(preferencesForm(app, wanted));
      // Nothing to choose where nothing is pushed.
      for (const part of [what, all]) part.hidden = !isServed;
    } catch (error) {
      await shown();
      here.replaceChildren(failure(error, load));
    }
  };
  const stop = app.push.on(() => {
    view.control?.render();
    list();
  });
  what.hidden = all.hidden = true;
  const view = {
    title: tm("push"),
    element: h("div", { class: "view" }, section(tm("push.here"), here), what, all),
    ready: load(),
    stop,
  };
  return view;
}

/** Says whether pushes come here, and turns them on and off. */
class HereControl {
  #app;
  #key;
  #changed;
  #isBusy = false;
  #words = h("span");
  // They stay, so that changes are announced.
  #word = h("p", { class: "push-state", role: "status", data: { testid: "push-state" } }, this.#words);
  #problem = h("p", { class: "error", role: "alert", data: { testid: "push-problem" } });
  #controls = h("div", { class: "choices" });

  constructor(app, key, place, changed) {
    this.#app = app;
    this.#key = key;
    this.#changed = changed;
    place.replaceChildren(this.#word, this.#problem, this.#controls);
  }

  render() {
    const { push } = this.#app;
    const state = this.#state();
    this.#word.dataset.state = state;
    const user = push.owner?.user ?? "";
    setText(this.#words, this.#isBusy ? tm("push.busy") : tm(`push.state.${state}`, { user }));
    const focused = this.#controls.contains(document.activeElement);
    this.#controls.replaceChildren(
      ...(state === "on" ? [this.#button(tm("push.off.do"), () => push.disable())] : []),
      ...(["off", "other"].includes(state)
        ? [this.#button(tm("push.on.do"), () => enablePush(this.#app, this.#key), "primary")]
        : []),
    );
    if (focused) this.#controls.firstChild?.focus();
  }

  #button(text, run, style = "") {
    return button({
      class: `button ${style}`,
      text,
      // Not disabled: the focus stays.
      "aria-disabled": this.#isBusy && "true",
      data: { testid: "push-turn" },
      onclick: () => this.#isBusy || this.#run(run),
    });
  }

  #state() {
    const { push } = this.#app;
    if (!isPushPossible()) return "impossible";
    if (!this.#key) return "unserved";
    if (Notification.permission === "denied") return "denied";
    if (this.#isBusy) return push.isOn ? "on" : "off";
    if (push.isOn) return "on";
    return push.owner && Notification.permission === "granted" ? "other" : "off";
  }

  async #run(turn) {
    this.#isBusy = true;
    this.#problem.textContent = "";
    this.render();
    try {
      await turn();
    } catch (error) {
      this.#problem.textContent =
        error instanceof PushError ? tm(`push.problem.${error.reason}`) : messageOf(error);
    } finally {
      this.#isBusy = false;
      this.render();
      this.#changed();
    }
  }
}

function deviceRows(app, items, changed) {
  if (items.length === 0) return [h("p", { text: tm("push.devices.none") })];
  return [h("ul", { class: "devices" }, ...items.map((device) => deviceRow(app, device, changed)))];
}

function deviceRow(app, { id, platform, app_version: version, time_zone: zone, seen_at: seenAt }, changed) {
  const isHere = id === app.push.device && app.push.isOn;
  const name = version ?? PLATFORMS[platform] ?? tm("push.device.server");
  const remove = async () => {
    if (isHere) await app.push.disable();
    else await app.client.connection.rpc("devices.remove", { id });
    await changed();
  };
  const hints = [isHere && tm("push.device.here"), version && PLATFORMS[platform], zone].filter(Boolean).join(" · ");
  const ask = () => confirmDialog(tm("push.device.remove"), tm("push.device.sure", { name }), t("remove"), remove);
  return h(
    "li",
    { class: "person", data: { testid: "device", id } },
    h(
      "span",
      { class: "person-name" },
      h("span", { class: "name", text: name }),
      h("span", { class: "meta" }, hints && `${hints} · `, tm("push.device.seen"), " ", timeElement(seenAt)),
    ),
    button({
      class: "button",
      text: t("remove"),
      "aria-label": tm("push.device.remove.name", { name }),
      data: { testid: "device-remove" },
      onclick: ask,
    }),
  );
}

/** The part of the settings: the way here, and the devices; a sentence where the server does not push. */
export function pushSection(app) {
  const element = h("div", { class: "push-here", data: { testid: "push-settings" } });
  const open = h("a", { class: "button", href: paths.push(), text: tm("push.open"), data: { testid: "open-push" } });
  const load = async () => {
    const shown = showWhenSlow(element, () => skeletons(1, "line"));
    try {
      const { devices, isServed } = await readPush(app);
      await shown();
      const sentence = h("p", { text: tm(isServed ? "push.lead" : "push.state.unserved") });
      element.replaceChildren(sentence, ...(isServed ? [h("div", {}, open)] : []));
      if (devices.length > 0) element.append(...deviceRows(app, devices, load));
    } catch (error) {
      await shown();
      element.replaceChildren(failure(error, load));
    }
  };
  return { element, ready: load(), stop: app.push.on(load) };
}
