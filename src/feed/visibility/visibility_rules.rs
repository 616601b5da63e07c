//! The visibility rules, by relation, visibility and context.

use super::followed_topics::TopicSet;
use crate::model::{Post, Relation, Standing, UserId, Visibility};

/// The context in which content is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewContext {
    /// Requested by id: a post, a profile, the comments of a post. Mutes do not apply.
    Direct,
    /// Not requested by the reader: notifications, pushes. Mutes apply, and limited authors are visible to followers.
    Unrequested,
    /// Offered to all readers: topics, the public posts of all users, suggestions, search. Mutes apply, and limited
    /// authors are in none of it.
    Discovery,
    /// A list of the reader: mutes apply, and limited authors are in none of it.
    List,
    /// The reader's timeline: mutes apply, and it has posts of followees, of the reader, and by topics that the reader
    /// follows.
    Timeline,
    /// The same for what an inbox stores. Standings do not apply: a standing may end, and is checked at each delivery.
    Inbox,
}

impl ViewContext {
    /// Whether only what the reader follows is shown, and the reader's own.
    pub(crate) fn is_timeline(self) -> bool {
        matches!(self, Self::Timeline | Self::Inbox)
    }

    /// Whether an author of this standing is withheld from a reader, who follows the author or not.
    fn withholds(self, standing: Standing, follows: bool) -> bool {
        match (standing, self) {
            (Standing::Active, _) | (Standing::Suspended | Standing::Limited, Self::Inbox) => false,
            (Standing::Suspended, _) | (Standing::Limited, Self::Discovery | Self::List) => true,
            (Standing::Limited, Self::Unrequested) => !follows,
            (Standing::Limited, Self::Direct | Self::Timeline) => false,
        }
    }
}

/// The data that decides whether a reader may see an author's content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessContext<'a> {
    /// The reader; `None`: an anonymous client.
    pub(crate) reader: Option<&'a UserId>,
    /// The relation of the reader and the author; the default for anonymous clients.
    pub(crate) relation: Relation,
    /// The context of the request.
    pub(crate) view: ViewContext,
}

impl AccessContext<'_> {
    /// Whether the reader may see the author's content at all. All other rules require this.
    pub(crate) fn can_see_user(self, author: &UserId) -> bool {
        let Relation { muted, follows, standing, .. } = self.relation;
        let muted = muted && self.view != ViewContext::Direct;
        let withheld = self.view.withholds(standing, follows);
        self.reader == Some(author) || !(self.relation.is_barred() || muted || withheld)
    }

    /// Whether the reader may see a post by the rules of its author, and in a timeline and lists by the choice of the
    /// reader to see no reposts of that author. Does not check a reposted post.
    pub(crate) fn can_see_post(self, post: &Post) -> bool {
        let is_gathered = self.view.is_timeline() || self.view == ViewContext::List;
        let is_unwanted = post.repost.is_some() && self.relation.reposts_off && is_gathered;
        !is_unwanted && self.can_see(&post.author, &post.visibility)
    }

    /// As [`can_see_post`](Self::can_see_post). A timeline also has posts of followed topics: `topics`.
    pub(crate) fn can_see_in_timeline(self, post: &Post, topics: Option<&TopicSet>) -> bool {
        self.can_see_post(post) || self.followed_topic(post, topics).is_some()
    }

    /// The followed topic for which a timeline has a post; `None`: it has the post for no topic. Followed topics omit
    /// posts of locked accounts, of authors whose standing is not active, and of users in an exclusive list.
    pub(crate) fn followed_topic<'p>(self, post: &'p Post, topics: Option<&TopicSet>) -> Option<&'p str> {
        let Relation { listed, locked, standing, .. } = self.relation;
        let has_standing = standing == Standing::Active || self.view == ViewContext::Inbox;
        let is_offered = self.view.is_timeline() && has_standing && !listed && !locked;
        topics?.matching(post).filter(|_| is_offered && self.can_see_user(&post.author))
    }

    /// Whether the reader may see a post of the author with this visibility.
    pub(crate) fn can_see(self, author: &UserId, visibility: &Visibility) -> bool {
        if self.reader == Some(author) {
            return true;
        }
        let Relation { follows, followed, locked, listed, .. } = self.relation;
        if !self.can_see_user(author) || (self.view.is_timeline() && (!follows || listed)) {
            return false;
        }
        let named = |names: &[UserId]| self.reader.is_some_and(|reader| names.contains(reader));
        // What an author of a locked account wrote for all is for their followers, also what was written before.
        let is_open = !locked || follows;
        match visibility {
            Visibility::Public => is_open,
            Visibility::Followers => follows,
            Visibility::Friends => follows && followed,
            Visibility::OnlyTo(names) => follows && named(names),
            Visibility::NotTo(names) => is_open && !named(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> UserId {
        UserId::parse(text).expect("an id")
    }

    const NOTHING: Relation = Relation {
        follows: false,
        followed: false,
        hidden: false,
        muted: false,
        blocks: false,
        blocked: false,
        reposts_off: false,
        listed: false,
        locked: false,
        standing: Standing::Active,
    };
    const FOLLOWER: Relation = Relation { follows: true, ..NOTHING };
    const FOLLOWED: Relation = Relation { followed: true, ..NOTHING };
    const FRIEND: Relation = Relation { follows: true, followed: true, ..NOTHING };

    /// One character for each of public, followers, friends, only to ann, only to bo, not to ann, not to bo: `+` if the
    /// reader may see bo's post.
    fn seen(reader: Option<&str>, relation: Relation, view: ViewContext) -> String {
        let ann = vec![id("ann")];
        let bo = vec![id("bo")];
        let visibilities = [
            Visibility::Public,
            Visibility::Followers,
            Visibility::Friends,
            Visibility::OnlyTo(ann.clone()),
            Visibility::OnlyTo(bo.clone()),
            Visibility::NotTo(ann),
            Visibility::NotTo(bo),
        ];
        let reader = reader.map(id);
        let access = AccessContext { reader: reader.as_ref(), relation, view };
        visibilities.iter().map(|visibility| if access.can_see(&id("bo"), visibility) { '+' } else { '-' }).collect()
    }

    #[test]
    fn visibility_by_relation_and_context() {
        let with = |base: Relation, set: fn(&mut Relation)| {
            let mut relation = base;
            set(&mut relation);
            relation
        };
        let rows = [
            ("nothing", NOTHING, "+-----+", "+-----+", "-------"),
            ("a follower", FOLLOWER, "++-+--+", "++-+--+", "++-+--+"),
            ("followed only", FOLLOWED, "+-----+", "+-----+", "-------"),
            ("a friend", FRIEND, "++++--+", "++++--+", "++++--+"),
            ("a muting stranger", with(NOTHING, |it| it.muted = true), "+-----+", "-------", "-------"),
            ("a muting friend", with(FRIEND, |it| it.muted = true), "++++--+", "-------", "-------"),
        ];
        for (name, relation, direct, unrequested, timeline) in rows {
            assert_eq!(seen(Some("ann"), relation, ViewContext::Direct), direct, "{name}, direct");
            assert_eq!(seen(Some("ann"), relation, ViewContext::Unrequested), unrequested, "{name}, unrequested");
            assert_eq!(seen(Some("ann"), relation, ViewContext::Timeline), timeline, "{name}, timeline");
        }
        let views = [ViewContext::Direct, ViewContext::Unrequested, ViewContext::Timeline];
        let bars: [fn(&mut Relation); 3] = [|it| it.hidden = true, |it| it.blocks = true, |it| it.blocked = true];
        for view in views {
            for base in [NOTHING, FOLLOWER, FOLLOWED, FRIEND] {
                for bar in bars {
                    let barred = with(base, bar);
                    assert_eq!(seen(Some("ann"), barred, view), "-------", "{barred:?} {view:?}");
                    let access = AccessContext { reader: Some(&id("ann")), relation: barred, view };
                    assert!(!access.can_see_user(&id("bo")), "{barred:?} {view:?}");
                }
            }
            assert_eq!(seen(Some("bo"), NOTHING, view), "+++++++", "authors see their own, {view:?}");
        }
        assert_eq!(seen(None, NOTHING, ViewContext::Direct), "+----++", "an anonymous reader is not excluded by name");
        assert_eq!(seen(None, NOTHING, ViewContext::Timeline), "-------");
    }

    /// One character for each of direct, unrequested, discovery, timeline, inbox: `+` if the reader may see bo's public
    /// post.
    fn contexts(reader: Option<&str>, relation: Relation) -> String {
        use ViewContext::{Direct, Discovery, Inbox, Timeline, Unrequested};
        let views = [Direct, Unrequested, Discovery, Timeline, Inbox];
        views.iter().map(|view| seen(reader, relation, *view).remove(0)).collect()
    }

    #[test]
    fn visibility_by_standing() {
        let of = |base: Relation, standing| Relation { standing, ..base };
        let rows = [
            ("a stranger", Some("ann"), NOTHING, "+++--", "+----", "-----"),
            ("nobody", None, NOTHING, "+++--", "+----", "-----"),
            ("a follower", Some("ann"), FOLLOWER, "+++++", "++-++", "----+"),
            ("the author", Some("bo"), NOTHING, "+++++", "+++++", "+++++"),
        ];
        for (name, reader, relation, active, limited, suspended) in rows {
            assert_eq!(contexts(reader, relation), active, "{name}, active");
            assert_eq!(contexts(reader, of(relation, Standing::Limited)), limited, "{name}, limited");
            assert_eq!(contexts(reader, of(relation, Standing::Suspended)), suspended, "{name}, suspended");
        }
        let blocked = of(Relation { blocked: true, ..FOLLOWER }, Standing::Limited);
        assert_eq!(contexts(Some("ann"), blocked), "-----");
    }

    #[test]
    fn visibility_of_locked_accounts() {
        let locked = |relation: Relation| Relation { locked: true, ..relation };
        // The same as in `visibility_by_relation_and_context`, without the first and the last but one for strangers.
        let rows = [
            ("a stranger", Some("ann"), NOTHING, "-------", "-------"),
            ("nobody", None, NOTHING, "-------", "-------"),
            ("followed only", Some("ann"), FOLLOWED, "-------", "-------"),
            ("a follower", Some("ann"), FOLLOWER, "++-+--+", "++-+--+"),
            ("a friend", Some("ann"), FRIEND, "++++--+", "++++--+"),
            ("the author", Some("bo"), NOTHING, "+++++++", "+++++++"),
        ];
        for (name, reader, relation, direct, timeline) in rows {
            for view in [ViewContext::Direct, ViewContext::Unrequested, ViewContext::Discovery] {
                assert_eq!(seen(reader, locked(relation), view), direct, "{name}, {view:?}");
            }
            assert_eq!(seen(reader, locked(relation), ViewContext::Timeline), timeline, "{name}, timeline");
        }
        // Comments and likes of locked users are seen as those of others.
        let ann = id("ann");
        let bo = id("bo");
        let access = AccessContext { reader: Some(&ann), relation: locked(NOTHING), view: ViewContext::Unrequested };
        assert!(access.can_see_user(&bo));
    }

    #[test]
    fn exclusive_lists_take_posts_out_of_the_timeline_alone() {
        let listed = Relation { listed: true, ..FRIEND };
        for (view, expected) in [
            (ViewContext::Direct, "++++--+"),
            (ViewContext::Unrequested, "++++--+"),
            (ViewContext::List, "++++--+"),
            (ViewContext::Timeline, "-------"),
            (ViewContext::Inbox, "-------"),
        ] {
            assert_eq!(seen(Some("ann"), listed, view), expected, "{view:?}");
        }
        assert_eq!(seen(Some("bo"), Relation { listed: true, ..NOTHING }, ViewContext::Timeline), "+++++++");
        // A list is no discovery of strangers, and limited authors are in none.
        assert_eq!(seen(Some("ann"), NOTHING, ViewContext::List), "+-----+");
        let limited = Relation { standing: Standing::Limited, ..FRIEND };
        assert_eq!(seen(Some("ann"), limited, ViewContext::List), "-------");
        assert_eq!(seen(Some("ann"), Relation { muted: true, ..FRIEND }, ViewContext::List), "-------");
    }

    #[test]
    fn mutes_apply_to_unrequested_content_only() {
        let muted = Relation { muted: true, ..FRIEND };
        let ann = id("ann");
        let bo = id("bo");
        let sees = |view| AccessContext { reader: Some(&ann), relation: muted, view }.can_see_user(&bo);
        assert!(sees(ViewContext::Direct) && !sees(ViewContext::Unrequested) && !sees(ViewContext::Timeline));
        assert!(
            AccessContext { reader: Some(&bo), relation: NOTHING, view: ViewContext::Unrequested }.can_see_user(&bo)
        );
        assert!(AccessContext { reader: None, relation: NOTHING, view: ViewContext::Direct }.can_see_user(&bo));
    }
}
