// The second script, loaded when somebody is about to leave Home: the other views of a signed-in user, by name, the
// drawer, and the picker of people.

import { Drawer } from "../components/drawer.js";
import { pickPeople } from "../components/people-picker.js";
import { exploreView, searchView, topicsView } from "./discover.js";
import { favouritesView, topicView } from "./lists.js";
import { notificationsView } from "./notifications.js";
import { profileView } from "./profile.js";
import { pushView } from "./push.js";
import { settingsView } from "./settings.js";
import { threadView } from "./thread.js";

export { Drawer, pickPeople };
export const views = {
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
