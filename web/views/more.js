// The second script, loaded when somebody is about to leave Home: the other views of a signed-in user, by name, the
// drawer, the form for a post in a dialog, the picker and the completion of people, the menu of a post, its pictures,
// the words that cover posts, the tabs of lists, and the crowd.

import { composeDialog } from "../components/compose-dialog.js";
import { MentionCompletion } from "../components/completion.js";
import { Drawer } from "../components/drawer.js";
import { showKeys } from "../components/keys.js";
import { openLightbox } from "../components/lightbox.js";
import { listTabs } from "../components/list-tabs.js";
import { filterText } from "../components/muted-words.js";
import { pickPeople } from "../components/people-picker.js";
import { postMenu } from "../components/post-menu.js";
import { Crowd } from "../crowd.js";
import { readOverHttp } from "../over-http.js";
import { registerDevice } from "../push-setup.js";
import { exploreView, searchView, topicsView } from "./discover.js";
import { listView } from "./list.js";
import { listMembersView } from "./list-members.js";
import { favouritesView, quotesView, topicView } from "./lists.js";
import { moderationView } from "./moderation.js";
import { myListsView } from "./my-lists.js";
import { notificationsView } from "./notifications.js";
import { profileView } from "./profile.js";
import { pushView } from "./push.js";
import { requestsView } from "./requests.js";
import { settingsView } from "./settings.js";
import { threadView } from "./thread.js";

export { composeDialog, Crowd, Drawer, filterText, listTabs, MentionCompletion, openLightbox, pickPeople, postMenu };
export { readOverHttp, registerDevice, showKeys };
export const views = {
  post: threadView,
  quotes: quotesView,
  user: profileView,
  explore: exploreView,
  topics: topicsView,
  topic: topicView,
  notifications: notificationsView,
  favourites: favouritesView,
  search: searchView,
  requests: requestsView,
  settings: settingsView,
  push: pushView,
  moderation: moderationView,
  list: listView,
  lists: myListsView,
  "lists-one": listMembersView,
};
