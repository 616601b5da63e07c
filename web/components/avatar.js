// Avatars: the user's picture, or a drawn one: two tilted fields and a disc, the same for the same id.

import { addressOf } from "../base.js";
import { h, svg } from "../dom.js";
import { paths } from "../router.js";

/** FNV-1a over the id. */
function hash(text) {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ character.codePointAt(0), 0x01000193) >>> 0;
  return value;
}

/** The first letters of the first and the last word of a name; of an id without a name, its first. */
function initials(name) {
  const words = name.match(/[\p{L}\p{N}]\S*/gu) ?? [];
  const letters = [words[0], words.length > 1 && words.at(-1)].map((word) => (word ? [...word][0] : ""));
  // Two characters of a script with full-width letters do not fit.
  return (/\p{scx=Hani}|\p{scx=Hang}|\p{scx=Kana}/u.test(letters[0]) ? letters[0] : letters.join("")).toUpperCase();
}

function drawing(id) {
  const bits = hash(id);
  const hue = bits % 360;
  const sky = `hsl(${hue} 44% 64%)`;
  const ground = `hsl(${(hue + 90 + ((bits >>> 9) % 160)) % 360} 46% 42%)`;
  const disc = `hsl(${(hue + 20 + ((bits >>> 17) % 60)) % 360} 74% 86%)`;
  const tilt = ((bits >>> 8) % 70) - 35;
  const level = 46 + ((bits >>> 16) % 22);
  const x = 26 + ((bits >>> 4) % 48);
  const y = 24 + ((bits >>> 12) % 30);
  const radius = 13 + ((bits >>> 20) % 9);
  return svg(
    "svg",
    { viewBox: "0 0 100 100" },
    svg("rect", { width: 100, height: 100, fill: sky }),
    svg("rect", { x: -60, y: level, width: 220, height: 160, fill: ground, transform: `rotate(${tilt} 50 50)` }),
    svg("circle", { cx: x, cy: y, r: radius, fill: disc }),
  );
}

/** Puts the picture of `{id, name, avatar}` into an element, or a drawn one with the initials on it. */
function fill(element, { id, name = id, avatar: picture }) {
  const draw = () => {
    element.replaceChildren(drawing(id));
    element.dataset.initials = initials(name);
  };
  if (!picture || !/^(https:\/\/|\/(?!\/))/.test(picture)) draw();
  else {
    const image = h("img", { src: addressOf(picture), alt: "", loading: "lazy", referrerpolicy: "no-referrer" });
    image.addEventListener("error", draw, { once: true });
    element.append(image);
  }
  return element;
}

/** The avatar of a user; decorative, since the name stands beside it. */
export function avatar(user, size = "") {
  return fill(h("span", { class: `avatar ${size}`.trim(), "aria-hidden": "true" }), user);
}

/** An avatar that leads to the profile. It repeats the link of the name, so the keyboard skips it. */
export function avatarLink(user, size = "") {
  const link = h("a", {
    class: `avatar ${size}`.trim(),
    href: paths.user(user.id),
    tabindex: -1,
    "aria-hidden": "true",
  });
  return fill(link, user);
}
