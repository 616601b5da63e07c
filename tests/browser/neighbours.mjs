// Sample data for the views: people, follows, posts, comments, likes.

import { createAccount } from "./people.mjs";

const PEOPLE = {
  yuki: "Yuki Sato",
  tomas: "Tomas Reyes",
  chenwei: "Chen Wei",
  lena: "Lena Brandt",
  sam: "Sam Ortiz",
  lin: "Lin Xiaoyu",
};

/** Fills a server with sample data around `mira`, who has signed up. Returns the id of the post with a thread. */
export async function neighbours(server) {
  const as = (user, method, route, body) => server.callAs(user, method, route, body);
  const post = (user, draft) => as(user, "POST", "/posts", typeof draft === "string" ? { text: draft } : draft);
  const comment = (user, id, text, more) => as(user, "POST", `/posts/${id}/comments`, { text, ...more });
  for (const [user, name] of Object.entries(PEOPLE)) await createAccount(server, user, name);
  const follow = (user, target) => as(user, "PUT", `/users/${target}/follow`);
  for (const friend of ["yuki", "tomas", "chenwei"]) {
    await follow("mira", friend);
    await follow(friend, "mira");
    for (const other of ["lena", "sam"]) await follow(friend, other);
  }
  await follow("yuki", "lin");
  await follow("lena", "mira");
  await post("lena", "Sourdough, day nine. It lives. #bread");
  await post("tomas", "Packing for the night train. Does a cello count as hand luggage? #nighttrain");
  await post("yuki", "Plum jam season begins on Saturday. I have eleven jars and no restraint.");
  await post("chenwei", "第一次在这里发帖。@mira 的面包配方真的有效！ #bread");
  const note = await post("mira", {
    text: "Note to self: the oven thermometer was right. The oven was lying.",
    visibility: "friends",
  });
  const train = await post("tomas", {
    text: "Five in the morning, third train, first coffee. The cello has the window seat. #nighttrain",
    location: { lat: 47.05, lon: 8.31, name: "Luzern" },
  });
  const jam = await post("yuki", "Jam update: eleven jars. Come and take one before my sister does.");
  await post("sam", "@mira do you still have the starter? #bread");
  for (const [user, { id }] of [
    ["tomas", note],
    ["yuki", note],
    ["mira", jam],
    ["chenwei", jam],
    ["lena", jam],
    ["mira", train],
  ]) {
    await as(user, "PUT", `/posts/${id}/like`);
  }
  const club = await comment("yuki", note.id, "Mine lies as well. We should found a club.");
  await comment("mira", note.id, "President or treasurer, @yuki?", { reply_to: club.id });
  await comment("tomas", note.id, "Ovens, trains: all clocks are opinions.");
  await comment("chenwei", note.id, "我家的烤箱也这样。");
  await as("mira", "PUT", `/favourites/post/${jam.id}`);
  return note.id;
}
