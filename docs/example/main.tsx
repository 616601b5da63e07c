// A timeline in React. The user and the token stand in the address: http://localhost:4173/#ann:TOKEN

import { Feedline, type Entry } from "feedline-client";
import { useStore } from "feedline-client/react";
import { type FormEvent, StrictMode } from "react";
import { createRoot } from "react-dom/client";

const [user = "", token = ""] = location.hash.slice(1).split(":");
const feedline = new Feedline({ url: "/connection/websocket", user, token });

function Post({ entry: { post, state, like } }: { entry: Entry }) {
  const name = useStore(feedline.people, (people) => people.get(post.author).name);
  return (
    <article>
      <b>{name}</b> {post.text} {state !== "stored" && <i>{state}</i>}
      <button aria-pressed={like.liked} onClick={() => feedline.likes.toggle(post)}>
        Like {like.likes}
      </button>
    </article>
  );
}

function Timeline() {
  const entries = useStore(feedline.timeline, (timeline) => timeline.entries);
  const line = useStore(feedline.connection, (connection) => connection.state, "state");
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    feedline.timeline.post({ text: String(new FormData(form).get("text")) });
    form.reset();
  };
  return (
    <main>
      <p role="status">{line.name}</p>
      <form onSubmit={send}>
        <input name="text" aria-label="Text" required />
        <button>Post</button>
      </form>
      {entries.map((entry) => (
        <Post key={entry.key} entry={entry} />
      ))}
    </main>
  );
}

feedline.open();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <Timeline />
  </StrictMode>,
);
