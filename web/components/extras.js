// What a post can carry besides text: media by URL with a preview, and a place.

import { GIVEN } from "../base.js";
import { button, h, show } from "../dom.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { isBlank, written } from "../text.js";
import { mediaItem } from "./media.js";

const MEDIA_MOST = Number(GIVEN.mediaLimit);
const KINDS = { video: /\.(mp4|webm|mov|m4v|ogv)$/i, audio: /\.(mp3|ogg|oga|wav|m4a|aac|flac|opus)$/i };

function kindOf(url) {
  const { pathname } = new URL(url, location.origin);
  return Object.keys(KINDS).find((kind) => KINDS[kind].test(pathname)) ?? "image";
}

/** Media by URL. */
export class MediaField {
  #items = [];
  #list = h("div", { class: "attached" });
  #url = h("input", {
    class: "input",
    type: "url",
    placeholder: "https://",
    "aria-label": t("media.url"),
    spellcheck: "false",
    data: { testid: "media-url" },
  });
  #error = h("p", { class: "error", role: "alert" });
  #adder;
  toggle;
  element;

  constructor() {
    const add = button({ class: "button", text: t("add"), data: { testid: "media-add" }, onclick: () => this.#add() });
    this.#adder = h("div", { class: "extra", hidden: true }, this.#url, add);
    this.toggle = button(
      {
        class: "icon-button",
        "aria-label": t("media.attach"),
        title: t("media.attach"),
        "aria-expanded": "false",
        data: { testid: "media-toggle" },
        onclick: () => this.#open(this.#adder.hidden),
      },
      icon("image"),
    );
    this.#url.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.#add();
    });
    this.element = h("div", { class: "attached" }, this.#list, this.#adder, this.#error);
    show(this.element, false);
  }

  get value() {
    const described = ({ value }) => written(value) && { alt: written(value) };
    return this.#items.map(({ type, url, alt }) => ({ type, url, ...described(alt) }));
  }

  /** What is wrong with a URL that was typed and not added. */
  get problem() {
    return this.#url.value.trim() !== "" && !this.#add() ? this.#error.textContent : "";
  }

  set(media) {
    this.#items = media.map((item) => this.#item(item.url, item.type, item.alt));
    this.#url.value = "";
    this.#open(false);
    this.#render();
  }

  #open(open) {
    show(this.#adder, open);
    this.toggle.setAttribute("aria-expanded", String(open));
    this.#error.textContent = "";
    this.#render();
    if (open) this.#url.focus();
  }

  #add() {
    const text = this.#url.value.trim();
    // A path is one of this server.
    const valid = /^(https:\/\/|\/(?!\/))\S+$/.test(text) && URL.canParse(text, location.origin);
    this.#error.textContent = !valid
      ? t("media.invalid")
      : this.#items.length >= MEDIA_MOST
        ? t("media.most", { n: MEDIA_MOST })
        : "";
    if (this.#error.textContent !== "") return false;
    this.#items.push(this.#item(text, kindOf(text)));
    this.#url.value = "";
    this.#render();
    this.#items.at(-1).alt.focus();
    return true;
  }

  #item(url, type, text = "") {
    const alt = h("input", {
      class: "input",
      maxlength: 1000,
      placeholder: t("media.alt"),
      "aria-label": t("media.alt"),
      dir: "auto",
      value: text ?? "",
    });
    const remove = button({ class: "icon-button", "aria-label": t("remove") }, icon("close"));
    const row = h(
      "div",
      { class: "attached-item", data: { testid: "media-preview" } },
      mediaItem({ type, url }),
      alt,
      remove,
    );
    const item = { url, type, alt, row };
    remove.addEventListener("click", () => {
      this.#items = this.#items.filter((one) => one !== item);
      this.#render();
      this.toggle.focus();
    });
    return item;
  }

  #render() {
    this.#list.replaceChildren(...this.#items.map(({ row }) => row));
    show(this.element, !this.#adder.hidden || this.#items.length > 0);
  }
}

/** A place: its name, and where it is. */
export class PlaceField {
  #name = h("input", {
    class: "input",
    maxlength: 100,
    placeholder: t("place.name"),
    "aria-label": t("place.name"),
    dir: "auto",
    data: { testid: "place-name" },
  });
  #at = h("input", {
    class: "input",
    placeholder: t("place.at"),
    "aria-label": t("place.at"),
    inputmode: "decimal",
    data: { testid: "place-at" },
  });
  toggle;
  element;

  constructor() {
    const here = button({ class: "button", text: t("place.here"), onclick: () => this.#here() });
    this.element = h("div", { class: "extra" }, this.#name, this.#at, here);
    this.toggle = button(
      {
        class: "icon-button",
        "aria-label": t("place.add"),
        title: t("place.add"),
        "aria-expanded": "false",
        data: { testid: "place-toggle" },
        onclick: () => this.#open(this.element.hidden),
      },
      icon("pin"),
    );
    this.#open(false, false);
  }

  get #position() {
    const [lat, lon] = this.#at.value
      .split(/[\s,，]+/)
      .filter(Boolean)
      .map(Number);
    return Math.abs(lat) <= 90 && Math.abs(lon) <= 180 ? { lat, lon } : null;
  }

  get value() {
    const name = written(this.#name.value);
    return this.element.hidden || !this.#position ? null : { ...this.#position, ...(name && { name }) };
  }

  get problem() {
    const typed = !this.element.hidden && (!isBlank(this.#name.value) || this.#at.value.trim() !== "");
    return typed && !this.#position ? t("place.invalid") : "";
  }

  set(location) {
    this.#name.value = location?.name ?? "";
    this.#at.value = location ? `${location.lat}, ${location.lon}` : "";
    this.#open(Boolean(location), false);
  }

  #open(open, focus = true) {
    show(this.element, open);
    this.toggle.setAttribute("aria-expanded", String(open));
    if (open && focus) this.#name.focus();
  }

  #here() {
    navigator.geolocation?.getCurrentPosition(
      ({ coords }) => {
        // Two decimals are about a kilometre: enough for a post.
        this.#at.value = `${coords.latitude.toFixed(2)}, ${coords.longitude.toFixed(2)}`;
      },
      () => {
        this.#at.placeholder = t("place.denied");
      },
    );
  }
}
