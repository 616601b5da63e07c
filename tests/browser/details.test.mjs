// Details of the look: long names, topics from right to left, borders of buttons, what is below a dialog, link cards.

import assert from "node:assert/strict";
import { test } from "node:test";

import { DESKTOP, findings, fits, PHONE } from "./inspect.mjs";
import { createAccount, go, LIVE_MS, stage } from "./people.mjs";

const LONG_ID = "a_very_long_id_of_somebody_who_could_not_decide_on_a_shorter_one";
const LONG = { id: LONG_ID, name: "Wolfeschlegelstein ".repeat(5) };
const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server }) => {
    await createAccount(server, LONG.id, LONG.name.trim());
    await server.callAs("ann", "PUT", `/users/${LONG.id}/follow`);
    await server.callAs("ann", "PUT", "/users/bo/follow");
  },
});

/** The luminance of `rgb(…)`, as WCAG defines it. */
function luminance(colour) {
  const [red, green, blue] = colour.match(/[\d.]+/g).map((part) => {
    const share = Number(part) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** The red, green and blue of a colour, from 0 to 255, and its opacity. */
function channels(colour) {
  const [red, green, blue, opacity = 1] = colour.match(/[\d.]+/g).map(Number);
  const scale = colour.startsWith("color(") ? 255 : 1;
  return { rgb: [red, green, blue].map((part) => part * scale), opacity };
}

const contrast = (one, other) => {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};

test("a handle is shown as a whole or not at all, and long names stick out nowhere", async () => {
  const { server, ann } = scene;
  const long = await server.postOf(LONG.id, "From somebody with a long name #\u0645\u0631\u062d\u0628\u0627");
  await server.callAs(LONG.id, "POST", `/posts/${long.id}/comments`, { text: "And a comment" });
  await server.callAs(LONG.id, "PUT", "/users/ann/follow");
  const short = await server.postOf("bo", "From Bo");
  /** What stands in the lines with names: whether the handle is shown, and whether the line cuts it or the name. */
  const lines = () =>
    ann.run(() =>
      [...document.querySelectorAll(".names")].map((names) => {
        const [line, name, handle] = [names, ...names.children].map((one) => one.getBoundingClientRect());
        const { scrollWidth, clientWidth } = names.querySelector(".handle");
        const isShown = handle.width > 0 && handle.top < line.bottom;
        return { isShown, isCut: name.right > line.right + 1 || (isShown && scrollWidth > clientWidth) };
      }),
    );
  for (const size of [DESKTOP, PHONE]) {
    await ann.emulate(size);
    for (const path of ["/", `/post/${long.id}`, `/user/${LONG.id}`, "/notifications"]) {
      await go(ann, path);
      const name = path === "/notifications" ? "notification" : path.startsWith("/user") ? "profile" : "#view article";
      await ann.sees(name, "Wolfeschlegelstein", 4 * LIVE_MS);
      await fits(ann, `${path} with a long name`);
      assert.deepEqual((await lines()).filter(({ isCut }) => isCut), [], path);
    }
    const isCut = await ann.run(() => {
      const [name, sum] = ["strong", ".sum"].map((part) => document.querySelector(`.notification ${part}`));
      return [name.scrollWidth > name.clientWidth, sum.offsetHeight, sum.textContent];
    });
    assert.match(isCut[2], /followed you/);
    assert.ok(isCut[1] < 60, `${isCut[1]} px`);
    if (size === PHONE) assert.ok(isCut[0], "the name is cut, not what its owner did");
    await ann.shot(`long-names-${size.width}`);
  }
  await ann.emulate(DESKTOP);
  await go(ann, "/");
  await ann.sees(`[data-id="${short.id}"] .handle`, "@bo");
  assert.ok((await lines()).some(({ isShown }) => isShown), "a handle with room is shown");
});

test("a topic from right to left has the place of other titles", async () => {
  const { ann } = scene;
  await go(ann, "/topic/\u0645\u0631\u062d\u0628\u0627".replace(/[^/\w]+/, encodeURIComponent));
  await ann.sees("#title", "#");
  const [left, sign, letter] = await ann.run(() => {
    const range = document.createRange();
    const title = document.getElementById("title");
    const { left: edge } = document.querySelector("main").getBoundingClientRect();
    range.selectNodeContents(title);
    const places = [range.getBoundingClientRect().left - edge];
    for (const at of [0, 1]) {
      range.setStart(title.firstChild, at);
      range.setEnd(title.firstChild, at + 1);
      places.push(range.getBoundingClientRect().left - edge);
    }
    return places;
  });
  assert.ok(left < 60, `${left} px`);
  assert.ok(sign > letter, `it begins with its sign at the right: ${sign} px and ${letter} px`);
});

test("borders of buttons are seen in both themes", async () => {
  const { ann } = scene;
  await go(ann, "/settings");
  await ann.sees("sign-out-everywhere", "");
  for (const dark of [false, true]) {
    await ann.emulate({ ...DESKTOP, dark });
    const [border, card] = await ann.run(() => {
      const button = document.querySelector("[data-testid=sign-out-everywhere]");
      return [getComputedStyle(button).borderTopColor, getComputedStyle(button.closest(".card")).backgroundColor];
    });
    assert.ok(contrast(border, card) >= 3, `${contrast(border, card)} : 1`);
  }
  await ann.emulate(DESKTOP);
});

test("what is pointed at has its colour evenly around it", async () => {
  const { ann } = scene;
  await go(ann, "/");
  await ann.sees("post-body", "From Bo");
  const boxes = await ann.run(() =>
    [...document.querySelectorAll(".actions > *:not(:last-child)")].map((action) => {
      const { left, right } = action.getBoundingClientRect();
      const shown = [...action.children].map((one) => one.getBoundingClientRect()).filter(({ width }) => width > 0);
      return Math.abs(shown[0].left - left - (right - shown.at(-1).right));
    }),
  );
  assert.ok(boxes.length > 0 && Math.max(...boxes) <= 1, `${boxes} px`);
});

test("below a dialog nothing is left bright, and nothing scrolls", async () => {
  const { ann } = scene;
  for (const size of [DESKTOP, PHONE]) {
    await ann.emulate(size);
    await go(ann, "/topics");
    await ann.sees("#title", "Topics");
    await ann.run(() => document.querySelector("[data-testid=compose-open], [data-testid=fab]").click());
    await ann.sees("compose-dialog", "New post");
    const [overflow, ...colours] = await ann.run(() => [
      getComputedStyle(document.documentElement).overflow,
      getComputedStyle(document.documentElement).backgroundColor,
      getComputedStyle(document.body).backgroundColor,
      getComputedStyle(document.querySelector("dialog"), "::backdrop").backgroundColor,
    ]);
    assert.equal(overflow, "hidden");
    const [gutter, paper, backdrop] = colours.map(channels);
    assert.ok(backdrop.opacity >= 0.3, `the backdrop covers the page: ${colours[2]}`);
    // The gutter of the scrollbar is not below the backdrop, and looks as if it were.
    const covered = paper.rgb.map((part, at) => part + (backdrop.rgb[at] - part) * backdrop.opacity);
    const difference = Math.max(...covered.map((part, at) => Math.abs(part - gutter.rgb[at])));
    assert.ok(difference <= 3, `the gutter has the colour of the page below the dialog: ${colours}`);
    await ann.shot(`dialog-${size.width}`);
    await ann.press("\uE00C");
    await ann.until(() => ann.run(() => document.querySelector("dialog") === null), Boolean, "closed");
  }
  await ann.emulate(DESKTOP);
});

test("a view that fits the window has nothing to scroll", async () => {
  const { ann } = scene;
  for (const size of [DESKTOP, PHONE]) {
    await ann.emulate(size);
    await go(ann, "/topics");
    await ann.sees("topic", "#");
    const over = await ann.run(() => document.documentElement.scrollHeight - document.documentElement.clientHeight);
    assert.equal(over, 0, `${over} px at ${size.width} px`);
  }
  await ann.emulate(DESKTOP);
});

test("avatars of different people differ by more than a colour", async () => {
  const { ann } = scene;
  await go(ann, "/explore");
  await ann.sees("post-body", "From Bo");
  const letters = await ann.run(() =>
    [...document.querySelectorAll(".post .avatar")].map((one) => getComputedStyle(one, "::after").content),
  );
  assert.ok(letters.includes('"BD"') && letters.includes('"WW"'), String(letters));
});

test("a link card has what the post carries, and nothing that is no link", async () => {
  const { server, ann } = scene;
  const link = {
    url: "https://example.org/bread",
    title: "How to bake \u202e bread",
    description: `In nine days, ${"kneading".repeat(12)}`,
    image: "/icon.svg",
  };
  const post = (data) => server.callAs("ann", "POST", "/posts", { text: "Read this", data });
  const { id } = await post({ link });
  const others = [];
  for (const wrong of [{ ...link, url: "javascript:alert(1)" }, { url: link.url }, "https://example.org/", null])
    others.push((await post({ link: wrong })).id);
  await go(ann, "/");
  const card = `[data-id="${id}"] [data-testid=link-card]`;
  await ann.sees(card, "How to bake  bread", LIVE_MS);
  await ann.sees(card, "example.org");
  await ann.sees(card, link.description);
  const [href, image, rel] = await ann.run((name) => {
    const found = document.querySelector(name);
    return [found.href, found.querySelector("img").getAttribute("src"), found.rel];
  }, card);
  assert.deepEqual([href, image, rel], [link.url, "/icon.svg", "noopener noreferrer"]);
  for (const other of others) {
    await ann.sees(`[data-id="${other}"]`, "Read this");
    assert.equal(await ann.run((name) => document.querySelectorAll(name).length, `[data-id="${other}"] .link-card`), 0);
  }
  assert.deepEqual(await findings(ann), [], "link cards");
  await ann.shot("link-card");
  await ann.emulate(PHONE);
  await fits(ann, "a link card on a phone");
  const cut = await ann.run((name) => {
    const found = document.querySelector(name);
    const end = found.getBoundingClientRect().right;
    const texts = [...found.querySelectorAll("span, strong")];
    return texts.filter((one) => one.scrollWidth > one.clientWidth || one.getBoundingClientRect().right > end).length;
  }, card);
  assert.equal(cut, 0, "long words break in the card");
  await ann.shot("link-card-phone");
  await ann.emulate(DESKTOP);
});
