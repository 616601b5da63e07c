// Behind the curtain: frames in and out, offsets, recoveries, latency. And a way to lose the line on purpose.

import { button, h, setText } from "../dom.js";
import { locale, t } from "../i18n/index.js";
import { tm } from "../i18n/more.js";
import { lineButtons } from "./line-buttons.js";
import { lineNote, lineWord, Sparkline } from "./line-card.js";

const SHOWN = 200;
const ARROWS = { in: "↓", out: "↑", note: "●" };

/** The drawer at the bottom; one at a time. */
export class Drawer {
  #app;
  #closed;
  #paused = false;
  #stops = [];
  #frame = 0;
  #summary = h("span", { class: "meta" });
  #note = h("span", { role: "status" });
  #plot = new Sparkline();
  #latency = h("span");
  #list = h("div", {
    class: "frames",
    role: "log",
    "aria-live": "off",
    tabindex: 0,
    "aria-label": tm("curtain.frames"),
    data: { testid: "frames" },
  });
  #toggle = button({ class: "button", data: { testid: "toggle-online" }, onclick: () => this.#toggleOnline() });
  #buttons;
  element;

  constructor(app, closed) {
    this.#app = app;
    this.#closed = closed;
    this.#buttons = lineButtons(app);
    const pause = button({
      class: "button",
      text: t("curtain.pause"),
      "aria-pressed": "false",
      onclick: () => this.#pause(pause),
    });
    const close = button({
      class: "button",
      text: t("close"),
      data: { testid: "drawer-close" },
      onclick: () => this.close(),
    });
    this.element = h(
      "section",
      { class: "drawer", "aria-labelledby": "drawer-title", data: { testid: "drawer" } },
      h(
        "div",
        { class: "drawer-head" },
        h("h2", { id: "drawer-title", tabindex: -1, text: t("curtain") }),
        this.#summary,
        h("div", { class: "drawer-buttons" }, ...this.#buttons.elements, this.#toggle, pause, close),
      ),
      h("div", { class: "drawer-plot" }, this.#plot.element, this.#latency, this.#note),
      this.#list,
    );
    this.element.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    this.#stops = [app.tap.on(() => this.#schedule()), app.line.on(() => this.#schedule())];
    this.#render();
  }

  open() {
    document.body.append(this.element);
    this.element.querySelector("h2").focus({ preventScroll: true });
  }

  close() {
    cancelAnimationFrame(this.#frame);
    for (const stop of this.#stops) stop();
    this.element.remove();
    this.#closed();
  }

  #schedule() {
    this.#frame ||= requestAnimationFrame(() => this.#render());
  }

  #pause(control) {
    this.#paused = !this.#paused;
    control.setAttribute("aria-pressed", String(this.#paused));
    control.textContent = t(this.#paused ? "curtain.resume" : "curtain.pause");
    this.#render();
  }

  #toggleOnline() {
    const { connection } = this.#app.client;
    if (["offline", "ended"].includes(connection.state.name)) connection.open();
    else connection.close();
  }

  #render() {
    this.#frame = 0;
    const { client, line, tap } = this.#app;
    const off = ["offline", "ended"].includes(line.state.name);
    setText(this.#toggle, t(off ? "curtain.online" : "curtain.offline"));
    this.#buttons.render();
    setText(this.#note, lineNote(line) || lineWord(line));
    if (this.#paused) return;
    const { offset = 0, epoch = "–" } = tap.positions.get(`timeline:${client.user}`) ?? {};
    const values = { offset, epoch, in: tap.framesIn, out: tap.framesOut, n: line.recoveries };
    setText(this.#summary, tm("curtain.summary", values));
    const last = tap.latencies.at(-1);
    setText(this.#latency, last ? tm("curtain.latency", { ms: Math.round(last.ms) }) : tm("curtain.no-latency"));
    this.#plot.update(tap.latencies);
    this.#list.replaceChildren(...tap.entries.slice(-SHOWN).reverse().map(row));
  }
}

function row({ at, way, kind, channel, offset, id, method, text, ms }) {
  const time = new Date(at).toLocaleTimeString("en-GB", { hour12: false }) + `.${String(at % 1000).padStart(3, "0")}`;
  const about = [
    kind === "publication" ? channel : kind,
    id ? `#${id}` : "",
    method,
    offset && kind === "publication" ? offset : "",
    text,
  ];
  const direction = way === "note" ? "event" : way;
  return h(
    "div",
    {},
    h("span", { data: { direction }, text: time }),
    h("span", { data: { direction }, "aria-label": t(`curtain.${way}`), role: "img", text: ARROWS[way] }),
    h("span", { text: about.filter(Boolean).join("  ") }),
    h("span", {
      class: "took",
      text: ms === null || ms === undefined ? "" : `${Math.round(ms).toLocaleString(locale())} ms`,
    }),
  );
}
