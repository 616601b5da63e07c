// A menu beside the button that opens it, with arrow keys; focus returns to the button.

import { h } from "../dom.js";

let open = null;

/** Closes the open menu, if there is one. */
export function closeMenu({ focus = true } = {}) {
  if (!open) return;
  const { menu, anchor } = open;
  open = null;
  menu.remove();
  anchor.setAttribute("aria-expanded", "false");
  if (focus && anchor.isConnected) anchor.focus({ preventScroll: true });
}

/**
 * Opens a menu. Items are `{label, hint, checked, danger, confirm, testid, run}`; `confirm` is the label that asks once
 * more.
 */
export function openMenu(anchor, label, items) {
  const again = open?.anchor === anchor;
  closeMenu();
  if (again) return;
  const menu = h("div", { class: "menu card", role: "menu", popover: "manual", "aria-label": label });
  menu.append(...items.filter(Boolean).map((item) => menuItem(item)));
  // What is outside of an open dialog is inert: the menu is a part of it, and in the top layer above it.
  (anchor.closest("dialog, main, header, aside") ?? document.body).append(menu);
  menu.showPopover?.();
  place(menu, anchor);
  anchor.setAttribute("aria-expanded", "true");
  open = { menu, anchor };
  menu.addEventListener("keydown", (event) => move(menu, event));
  (menu.querySelector("[aria-checked=true]") ?? menu.firstElementChild).focus({ preventScroll: true });
}

function menuItem({ label, hint, checked, danger, confirm, testid, run }) {
  const words = h("span", { text: label });
  const item = h(
    "button",
    {
      type: "button",
      role: checked === undefined ? "menuitem" : "menuitemradio",
      "aria-checked": checked === undefined ? null : String(checked),
      tabindex: -1,
      class: danger && "danger",
      data: testid ? { testid } : {},
    },
    words,
    hint && h("span", { class: "meta", text: hint }),
  );
  let sure = !confirm;
  item.addEventListener("click", () => {
    if (!sure) {
      sure = true;
      words.textContent = confirm;
      return;
    }
    closeMenu();
    run();
  });
  return item;
}

function place(menu, anchor) {
  const at = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const left = Math.max(8, Math.min(at.right - width, innerWidth - width - 8));
  const below = at.bottom + 4 + height <= innerHeight;
  const from = at.left + width < innerWidth - 8 && at.left < innerWidth / 2 ? at.left : left;
  menu.style.left = `${from + scrollX}px`;
  menu.style.top = `${(below ? at.bottom + 4 : Math.max(8, at.top - height - 4)) + scrollY}px`;
}

function move(menu, event) {
  const items = [...menu.children];
  const at = items.indexOf(document.activeElement);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
  if (next !== undefined) items[(next + items.length) % items.length].focus();
  else if (event.key === "Escape" || event.key === "Tab") closeMenu();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** A dialog that scrolls would leave the menu behind. */
document.addEventListener("scroll", ({ target }) => target !== document && closeMenu({ focus: false }), true);

document.addEventListener("pointerdown", (event) => {
  if (open && !open.menu.contains(event.target) && !open.anchor.contains(event.target)) closeMenu({ focus: false });
});
