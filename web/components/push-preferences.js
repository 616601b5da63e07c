// The pushes that a user wants: kinds, private texts, quiet hours, the daily cap.

import { h } from "../dom.js";
import { tm } from "../i18n/more.js";
import { messageOf } from "./states.js";

const KINDS = [
  ...["mention", "reply", "comment", "like", "follow"],
  ...["request", "accepted", "repost", "quote", "post", "app.*"],
];
/** Quiet hours before somebody chose any. */
const NIGHT = { from: "22:00", to: "07:00" };
const MAX_DAILY = 1000;

/** A form with these preferences; it saves all of them together. */
export function preferencesForm(app, { kinds, private: isPrivate, quiet_hours: quiet, daily_cap: cap }) {
  // The application's kinds are wanted unless somebody said otherwise.
  const ofKind = (kind) => tick(`push-${kind}`, tm(`push.kind.${kind}`), kinds[kind] ?? true);
  const ticks = Object.fromEntries(KINDS.map((kind) => [kind, ofKind(kind)]));
  const discreet = tick("push-private", tm("push.private"), isPrivate, tm("push.private.hint"));
  const hours = quietHours(quiet);
  const number = h("input", {
    class: "input short",
    id: "push-cap",
    type: "number",
    inputmode: "numeric",
    min: 1,
    max: MAX_DAILY,
    step: 1,
    required: true,
    value: cap,
    data: { testid: "push-cap" },
  });
  const error = h("p", { class: "error", role: "alert", data: { testid: "push-error" } });
  const done = h("p", { class: "done", role: "status", data: { testid: "push-saved" } });
  const properties = { class: "button primary", type: "submit", data: { testid: "push-save" } };
  const save = h("button", { ...properties, text: tm("save") });
  const form = h(
    "form",
    { class: "form", novalidate: true },
    group("ticks many", tm("push.kinds"), ...KINDS.map((kind) => ticks[kind].element)),
    group("ticks", tm("push.text"), discreet.element),
    hours.element,
    h(
      "div",
      { class: "field" },
      h("label", { for: "push-cap" }, tm("push.cap"), h("span", { class: "meta", text: ` ${tm("push.cap.hint")}` })),
      number,
    ),
    h("div", { class: "form-foot" }, save, error, done),
  );
  const complain = (input, text) => {
    error.textContent = text;
    input.setAttribute("aria-invalid", "true");
    input.focus();
  };
  const valid = () => {
    for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
    const bad = hours.invalid();
    if (bad) complain(bad, tm("push.quiet.wrong"));
    else if (!number.validity.valid) complain(number, tm("push.cap.wrong", { n: MAX_DAILY }));
    else return true;
    return false;
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.textContent = done.textContent = "";
    if (!valid()) return;
    save.disabled = true;
    try {
      await app.client.connection.rpc("push.preferences", {
        kinds: { ...kinds, ...Object.fromEntries(KINDS.map((kind) => [kind, ticks[kind].input.checked])) },
        private: discreet.input.checked,
        daily_cap: Number(number.value),
        ...hours.value(),
      });
      done.textContent = tm("saved");
    } catch (failure) {
      error.textContent = messageOf(failure);
    } finally {
      save.disabled = false;
    }
  });
  return form;
}

const group = (style, title, ...children) => h("fieldset", { class: style }, h("legend", { text: title }), ...children);

function tick(id, text, checked, hint) {
  const input = h("input", { type: "checkbox", id, checked: Boolean(checked), data: { testid: id } });
  const words = h("span", {}, text, hint && h("span", { class: "meta", text: hint }));
  return { input, element: h("label", { class: "tick", for: id }, input, words) };
}

/** Begin, end and time zone of the quiet hours; they are shown while they are wanted. */
function quietHours(quiet) {
  const wanted = tick("push-quiet", tm("push.quiet.on"), quiet, tm("push.quiet.hint"));
  const time = (name) =>
    h("input", {
      class: "input short",
      id: `push-${name}`,
      type: "time",
      required: true,
      value: quiet?.[name] ?? NIGHT[name],
      data: { testid: `push-${name}` },
    });
  const [from, to] = [time("from"), time("to")];
  const zone = zoneChoice(quiet?.time_zone ?? "");
  const field = (input, text) => h("div", { class: "field" }, h("label", { for: input.id, text }), input);
  const fields = h(
    "div",
    { class: "quiet-fields" },
    field(from, tm("push.quiet.from")),
    field(to, tm("push.quiet.to")),
    field(zone, tm("push.quiet.zone")),
  );
  const render = () => (fields.hidden = !wanted.input.checked);
  wanted.input.addEventListener("change", render);
  render();
  const isOn = () => wanted.input.checked;
  return {
    element: group("ticks", tm("push.quiet"), wanted.element, fields),
    /** The input that is not right, if one is. */
    invalid: () => isOn() && (!from.value ? from : !to.value || from.value === to.value ? to : null),
    value: () => {
      if (!isOn()) return {};
      const hours = { from: from.value.slice(0, 5), to: to.value.slice(0, 5) };
      return { quiet_hours: { ...hours, ...(zone.value && { time_zone: zone.value }) } };
    },
  };
}

/** The time zone of each device, or one of the world's. */
function zoneChoice(current) {
  const zones = Intl.supportedValuesOf?.("timeZone") ?? [];
  const all = current && !zones.includes(current) ? [current, ...zones] : zones;
  const options = all.map((name) => h("option", { value: name, text: name.replaceAll("_", " ") }));
  const select = h(
    "select",
    { class: "input", id: "push-zone", data: { testid: "push-zone" } },
    h("option", { value: "", text: tm("push.quiet.device") }),
    ...options,
  );
  select.value = current;
  return select;
}
