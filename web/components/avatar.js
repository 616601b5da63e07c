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

/** The avatar of `{id, avatar}`; decorative, since the name stands beside it. */
export function avatar({ id, avatar: picture }, size = "") {
  const element = h("span", { class: `avatar ${size}`.trim(), "aria-hidden": "true" });
  const loadable = picture && /^(https:\/\/|\/(?!\/))/.test(picture);
  if (!loadable) element.append(drawing(id));
  else {
    const image = h("img", { src: addressOf(picture), alt: "", loading: "lazy", referrerpolicy: "no-referrer" });
    image.addEventListener("error", () => image.replaceWith(drawing(id)), { once: true });
    element.append(image);
  }
  return element;
}

/** An avatar that leads to the profile. It repeats the link of the name, so the keyboard skips it. */
export function avatarLink(user, size = "") {
  const link = h("a", {
    class: `avatar ${size}`.trim(),
    href: paths.user(user.id),
    tabindex: -1,
    "aria-hidden": "true",
  });
  link.append(avatar(user, size).firstChild);
  return link;
}
