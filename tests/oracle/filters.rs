//! The rules of filters: muted words.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::model::{Model, Post, User, ViewContext};

/// The words that texts have and filters search. The last one is a topic, which a post has as a member.
pub(crate) const WORDS: [&str; 3] = ["alpha", "beta", "#rust"];

/// The places that filters distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FilterContext {
    Home,
    Lists,
    Topics,
    Comments,
    Notifications,
}

impl FilterContext {
    pub(crate) const ALL: [Self; 5] = [Self::Home, Self::Lists, Self::Topics, Self::Comments, Self::Notifications];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Lists => "lists",
            Self::Topics => "topics",
            Self::Comments => "comments",
            Self::Notifications => "notifications",
        }
    }
}

/// A filter of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) owner: User,
    pub(crate) words: Vec<String>,
    /// Whether it hides content; otherwise it marks it.
    pub(crate) hides: bool,
    pub(crate) contexts: BTreeSet<FilterContext>,
    /// Whether it finds whole words alone; otherwise it finds them as parts of other words, too.
    pub(crate) is_whole: bool,
    /// Whether it has ended, and finds nothing any more.
    pub(crate) has_ended: bool,
}

/// A change of one member of a filter. The others stay.
#[derive(Clone, Debug)]
pub(crate) enum FilterChange {
    Words(Vec<String>),
    Hides(bool),
    Contexts(BTreeSet<FilterContext>),
    Whole(bool),
    /// It is to end soon.
    End,
}

impl Filter {
    pub(crate) fn change(&mut self, change: &FilterChange) {
        match change {
            FilterChange::Words(words) => self.words.clone_from(words),
            FilterChange::Hides(hides) => self.hides = *hides,
            FilterChange::Contexts(contexts) => self.contexts.clone_from(contexts),
            FilterChange::Whole(is_whole) => self.is_whole = *is_whole,
            FilterChange::End => self.has_ended = false,
        }
    }

    /// Whether the words of some content have one of the filter. Topics are found by their whole name; here, none is a
    /// part of another word.
    fn finds(&self, found: &BTreeSet<&str>) -> bool {
        self.words.iter().any(|word| {
            let word = word.as_str();
            found.contains(word) || (!self.is_whole && found.iter().any(|longer| longer.contains(word)))
        })
    }
}

/// The action of a filter, as the API has it.
pub(crate) fn action(hides: bool) -> &'static str {
    if hides { "hide" } else { "warn" }
}

/// Contexts, as the API has them.
pub(crate) fn names(contexts: &BTreeSet<FilterContext>) -> Value {
    json!(contexts.iter().map(|context| context.name()).collect::<Vec<_>>())
}

/// What a reader sees of some content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The content, with the filters that mark it.
    Shown(Vec<u64>),
    Hidden,
}

impl Outcome {
    const WHOLE: Self = Self::Shown(Vec::new());

    /// The filters that mark it.
    pub(crate) fn marks(self) -> Vec<u64> {
        match self {
            Self::Shown(marks) => marks,
            Self::Hidden => Vec::new(),
        }
    }
}

/// The words of a text.
fn words(text: &str) -> BTreeSet<&str> {
    text.split_whitespace().collect()
}

impl Model {
    /// The filters of a user, oldest first.
    pub(crate) fn filters_of(&self, owner: User) -> Vec<u64> {
        self.filters.iter().filter(|(_, filter)| filter.owner == owner).map(|(id, _)| *id).collect()
    }

    /// What a reader sees of a post by somebody else, with the posts that it names, as far as the reader may see them.
    pub(crate) fn outcome(&self, reader: User, post: &Post, context: FilterContext) -> Outcome {
        if post.author == reader {
            return Outcome::WHOLE;
        }
        let named = |id: u64| self.posts.get(&id).filter(|it| self.may_see(reader, it, ViewContext::Listed));
        let reposted = post.repost.and_then(named);
        let quoted = reposted.unwrap_or(post).attached().and_then(named);
        let all = [Some(post), reposted, quoted].into_iter().flatten().filter(|it| it.author != reader);
        let found = all.map(words_of).fold(BTreeSet::new(), |all, some| &all | &some);
        self.outcome_of_words(reader, &found, context)
    }

    /// What a reader sees of a text by a user.
    pub(crate) fn outcome_of_text(&self, reader: User, by: User, text: &str, context: FilterContext) -> Outcome {
        if by == reader { Outcome::WHOLE } else { self.outcome_of_words(reader, &words(text), context) }
    }

    /// What a reader sees of a comment. A deleted one has no text.
    pub(crate) fn outcome_of_comment(&self, reader: User, id: u64, context: FilterContext) -> Outcome {
        if self.emptied.contains(&id) {
            return Outcome::WHOLE;
        }
        let comment = &self.comments[&id];
        self.outcome_of_text(reader, comment.author, &comment.text, context)
    }

    /// Whether filters hide a post in a context.
    pub(crate) fn is_filtered(&self, reader: User, post: &Post, context: FilterContext) -> bool {
        self.outcome(reader, post, context) == Outcome::Hidden
    }

    /// Whether filters leave a quoted post out of the post that quotes it. Filters of the timeline decide where no
    /// filter applies to the post itself (`None`).
    pub(crate) fn hides_quoted(&self, reader: User, quoted: &Post, context: Option<FilterContext>) -> bool {
        let context = context.unwrap_or(FilterContext::Home);
        quoted.author != reader && self.outcome_of_words(reader, &words_of(quoted), context) == Outcome::Hidden
    }

    fn outcome_of_words(&self, reader: User, found: &BTreeSet<&str>, context: FilterContext) -> Outcome {
        let applies =
            |filter: &Filter| filter.owner == reader && !filter.has_ended && filter.contexts.contains(&context);
        let matching = self.filters.iter().filter(|(_, filter)| applies(filter) && filter.finds(found));
        let matching: Vec<(&u64, &Filter)> = matching.collect();
        if matching.iter().any(|(_, filter)| filter.hides) {
            return Outcome::Hidden;
        }
        Outcome::Shown(matching.into_iter().map(|(id, _)| *id).collect())
    }
}

/// The words of a post, and its topic.
fn words_of(post: &Post) -> BTreeSet<&str> {
    let topic = WORDS.into_iter().filter(|word| word.strip_prefix('#') == post.topic && post.topic.is_some());
    words(&post.text).into_iter().chain(topic).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Edge, Visibility};

    fn filter(owner: User, word: &str, hides: bool, contexts: &[FilterContext]) -> Filter {
        let contexts = contexts.iter().copied().collect();
        Filter { owner, words: vec![word.to_owned()], hides, contexts, is_whole: true, has_ended: false }
    }

    fn post(author: User, text: &str) -> Post {
        Post::new(author, text.to_owned(), Visibility::Public)
    }

    #[test]
    fn posts_have_the_words_of_what_they_name() {
        let mut model = Model::default();
        model.publish(1, post("ann", "one alpha"));
        model.publish(2, Post { quote: Some(1), ..post("bo", "two") });
        model.publish(3, Post { repost: Some(2), ..post("cy", "") });
        model.filters.insert(9, filter("dee", "alpha", true, &[FilterContext::Home]));
        for reader in ["dee", "eve"] {
            model.set(Edge::Follow, reader, "bo", true);
            model.set(Edge::Follow, reader, "cy", true);
        }
        assert_eq!((model.timeline("dee"), model.timeline("eve")), (vec![], vec![2]));
        let home = |model: &Model, id: u64| model.outcome("dee", &model.posts[&id], FilterContext::Home);
        assert_eq!((home(&model, 2), home(&model, 3)), (Outcome::Hidden, Outcome::Hidden));
        assert!(model.hides_quoted("dee", &model.posts[&1], None));
        assert!(!model.is_filtered("dee", &model.posts[&1], FilterContext::Topics));
        // What a reader may not see decides nothing.
        model.set(Edge::Mute, "dee", "ann", true);
        assert_eq!(model.timeline("dee"), [2]);
    }

    #[test]
    fn hiding_comes_before_marking_and_ones_own_is_shown() {
        let mut model = Model::default();
        for (id, hides) in [(5, false), (7, false), (8, true)] {
            let word = if hides { "beta" } else { "alpha" };
            model.filters.insert(id, filter("ann", word, hides, &FilterContext::ALL));
        }
        let outcome = |by, text| model.outcome_of_text("ann", by, text, FilterContext::Comments);
        assert_eq!(outcome("bo", "an alpha"), Outcome::Shown(vec![5, 7]));
        assert_eq!((outcome("bo", "alpha beta"), outcome("bo", "alphabet")), (Outcome::Hidden, Outcome::WHOLE));
        assert_eq!(outcome("ann", "alpha beta"), Outcome::WHOLE);
        let tagged = Post { topic: Some("rust"), ..post("bo", "none") };
        model.filters.insert(9, filter("ann", "#rust", false, &[FilterContext::Topics]));
        assert_eq!(model.outcome("ann", &tagged, FilterContext::Topics), Outcome::Shown(vec![9]));
        assert_eq!(model.outcome("ann", &tagged, FilterContext::Home), Outcome::WHOLE);
    }

    #[test]
    fn words_are_found_as_parts_if_the_filter_says_so() {
        let mut model = Model::default();
        model.filters.insert(5, filter("ann", "alpha", false, &FilterContext::ALL));
        let outcome = |model: &Model, text| model.outcome_of_text("ann", "bo", text, FilterContext::Comments).marks();
        assert_eq!((outcome(&model, "an alphabet"), outcome(&model, "an alpha")), (vec![], vec![5]));
        model.filters.get_mut(&5).expect("a filter").change(&FilterChange::Whole(false));
        assert_eq!((outcome(&model, "an alphabet"), outcome(&model, "alph abet")), (vec![5], vec![]));
    }
}
