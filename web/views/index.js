// The views of a signed-in user, by name.

import { exploreView, searchView, topicsView } from "./discover.js";
import { homeView } from "./home.js";
import { favouritesView, topicView } from "./lists.js";
import { notFoundView } from "./not-found.js";
import { notificationsView } from "./notifications.js";
import { profileView } from "./profile.js";
import { pushView } from "./push.js";
import { settingsView } from "./settings.js";
import { threadView } from "./thread.js";

const VIEWS = {
  post: threadView,
  user: profileView,
  explore: exploreView,
  topics: topicsView,
  topic: topicView,
  notifications: notificationsView,
  favourites: favouritesView,
  search: searchView,
  settings: settingsView,
  push: pushView,
};

/**
 * Makes the view of a route: `{title, element}`, and if it needs them `feed` (for the keyboard), `compose`, `ready`,
 * `top()`, `resume()` (it is shown), `pause()` (it is left, and kept) and `stop()` (it is forgotten).
 */
export function signedInViews(app, { name, params }) {
  // Home is one view, however often it is in the history: it has what was begun to write, and the timeline.
  if (name === "home") return (app.home ??= homeView(app));
  return (VIEWS[name] ?? notFoundView)(app, params);
}
