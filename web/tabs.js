// Likes in the other tabs of this browser. The server tells settlements only to the connection that asked; other
// devices see the count at once, and the heart when one looks at the post again.

/** Tells the other tabs of the user what settles here, and takes over what settles there. Returns how to end that. */
export function shareLikes({ user, likes }) {
  const tabs = new BroadcastChannel(`feedline.likes.${user}`);
  let isTold = false;
  const off = likes.on("settled", (like) => isTold || tabs.postMessage(like));
  tabs.onmessage = ({ data }) => {
    isTold = true;
    likes.emit("settled", data);
    isTold = false;
  };
  return () => {
    off();
    tabs.close();
  };
}
