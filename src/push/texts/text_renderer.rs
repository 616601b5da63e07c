//! Renders the texts of pushes: all templates, and the choice of one.

use std::collections::{BTreeMap, HashMap};

use super::builtin::BUILTIN;
use super::locale;
use super::template::{Placeholder, Template};
use super::text_kind::TextKind;
use crate::push::providers::truncate;
use crate::text::is_blank;

/// The maximum length of a name in a text, in characters.
const MAX_NAME_CHARS: usize = 50;

/// The maximum length of the beginning of a post or comment, in characters. Devices show less.
const MAX_TEXT_CHARS: usize = 300;

/// Which template of a kind is used: by the number of people, and of notifications in a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Variant {
    One,
    Two,
    Many,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Field {
    Title,
    Body,
}

/// `[push.texts]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextsConfig {
    /// The name of the application: `{app}`.
    pub app_name: String,
    /// The language for devices without a language, or with one that has no templates.
    pub default_locale: String,
    /// Templates by language, kind and variant. They replace the built-in ones.
    pub templates: BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>,
}

/// A template that is not valid, with its place in `[push.texts]`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("push.texts.{place} {problem}")]
pub struct TextError {
    /// Language, kind and variant, separated by full stops.
    pub place: String,
    /// What is wrong.
    pub problem: String,
}

/// The facts of which a text is made.
#[derive(Clone, Debug)]
pub struct TextInput<'a> {
    /// The event.
    pub kind: TextKind,
    /// The language tag of the device; `None` or a malformed one: the default.
    pub locale: Option<&'a str>,
    /// The name of the person who acted last.
    pub name: &'a str,
    /// The number of people who acted; in a digest, the number of notifications.
    pub count: u64,
    /// The post or comment.
    pub text: &'a str,
    /// Whether the receiver asked for private notifications.
    pub private: bool,
}

/// A text for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationText {
    /// The title.
    pub title: String,
    /// The text below, possibly empty.
    pub body: String,
}

/// All templates.
#[derive(Clone, Debug)]
pub struct Texts {
    app_name: String,
    default_locale: String,
    templates: HashMap<(String, TextKind, Field, Variant), Template>,
}

impl Variant {
    /// The values that a template may contain. `{others}` only where there are others.
    fn placeholders(self, kind: TextKind) -> &'static [Placeholder] {
        use Placeholder::{App, Count, Name, Others, Text};
        match (kind, self) {
            (TextKind::Private | TextKind::Test, _) => &[App],
            (TextKind::Digest, _) => &[App, Count],
            (TextKind::Follow | TextKind::Request | TextKind::Accepted, Self::One) => &[App, Name, Count],
            (TextKind::Follow | TextKind::Request | TextKind::Accepted, _) => &[App, Name, Count, Others],
            (_, Self::One) => &[App, Name, Count, Text],
            (_, _) => &[App, Name, Count, Others, Text],
        }
    }

    fn of(count: u64) -> Self {
        match count {
            0 | 1 => Self::One,
            2 => Self::Two,
            _ => Self::Many,
        }
    }

    /// The variants to try, the best first.
    fn fallbacks(self) -> &'static [Self] {
        match self {
            Self::One => &[Self::One],
            Self::Two => &[Self::Two, Self::Many, Self::One],
            Self::Many => &[Self::Many, Self::One],
        }
    }

    fn parse(key: &str) -> Option<(Field, Self)> {
        Some(match key {
            "title" => (Field::Title, Self::One),
            "title_two" => (Field::Title, Self::Two),
            "title_many" => (Field::Title, Self::Many),
            "body" => (Field::Body, Self::One),
            "body_two" => (Field::Body, Self::Two),
            "body_many" => (Field::Body, Self::Many),
            _ => return None,
        })
    }
}

impl Default for TextsConfig {
    fn default() -> Self {
        Self { app_name: "Feedline".into(), default_locale: "en".into(), templates: BTreeMap::new() }
    }
}

impl Texts {
    /// Parses all templates.
    ///
    /// # Errors
    /// Every template that is not valid, and a default language that lacks some.
    pub fn new(config: &TextsConfig) -> Result<Self, Vec<TextError>> {
        let mut errors = Vec::new();
        let default_locale = locale::normalize(&config.default_locale).unwrap_or_default();
        let mut texts = Self { app_name: config.app_name.clone(), default_locale, templates: HashMap::new() };
        for (language, kind, key, template) in BUILTIN {
            errors.extend(texts.add(language, kind, key, template).err());
        }
        for (language, kinds) in &config.templates {
            let replaced: Vec<_> =
                kinds.iter().filter_map(|(kind, keys)| Some((TextKind::parse(kind)?, keys))).collect();
            texts.remove_replaced(language, &replaced);
            for (kind, keys) in kinds {
                errors.extend(keys.iter().filter_map(|(key, text)| texts.add(language, kind, key, text).err()));
            }
        }
        for kind in TextKind::ALL {
            for (field, name) in [(Field::Title, "title"), (Field::Body, "body")] {
                if texts.find(&texts.default_locale, kind, field, Variant::One).is_none() {
                    let place = format!("{}.{}.{name}", config.default_locale, kind.name());
                    errors.push(TextError { place, problem: "is missing in the default language".into() });
                }
            }
        }
        if errors.is_empty() { Ok(texts) } else { Err(errors) }
    }

    /// The text for a device.
    pub fn render(&self, input: &TextInput<'_>) -> NotificationText {
        let kind = if input.private && input.kind != TextKind::Test { TextKind::Private } else { input.kind };
        let candidates = input.locale.map(locale::fallbacks).unwrap_or_default();
        let default = locale::fallbacks(&self.default_locale);
        // Title and body are of the same language.
        let complete = |language: &&String| self.find(language, kind, Field::Title, Variant::One).is_some();
        let language = candidates.iter().chain(&default).find(complete).unwrap_or(&self.default_locale);
        let value = |placeholder| match placeholder {
            Placeholder::App => self.app_name.clone(),
            Placeholder::Name => clean(input.name, MAX_NAME_CHARS),
            Placeholder::Count => input.count.to_string(),
            Placeholder::Others => input.count.saturating_sub(1).to_string(),
            Placeholder::Text => clean(input.text, MAX_TEXT_CHARS),
        };
        let variant = Variant::of(input.count);
        let render = |field| {
            let template = self.find(language, kind, field, variant);
            template.map(|template| template.render(value)).unwrap_or_default()
        };
        NotificationText { title: render(Field::Title), body: render(Field::Body) }
    }

    fn find(&self, language: &str, kind: TextKind, field: Field, variant: Variant) -> Option<&Template> {
        let mut variants = variant.fallbacks().iter();
        variants.find_map(|variant| self.templates.get(&(language.to_owned(), kind, field, *variant)))
    }

    fn add(&mut self, language: &str, kind: &str, key: &str, text: &str) -> Result<(), TextError> {
        let error = |problem: String| TextError { place: format!("{language}.{kind}.{key}"), problem };
        let tag = locale::normalize(language).ok_or_else(|| error("does not begin with a language tag".into()))?;
        let kind = TextKind::parse(kind).ok_or_else(|| error("is not a kind of notification".into()))?;
        let (field, variant) = Variant::parse(key).ok_or_else(|| {
            error(
                "is unknown: templates are `title`, `title_two`, `title_many`, `body`, `body_two`, `body_many`".into(),
            )
        })?;
        let template = Template::parse(text, variant.placeholders(kind)).map_err(error)?;
        self.templates.insert((tag, kind, field, variant), template);
        Ok(())
    }

    /// A configured title replaces the built-in titles for two and many as well: they would not match. So does a body.
    fn remove_replaced(&mut self, language: &str, kinds: &[(TextKind, &BTreeMap<String, String>)]) {
        let Some(language) = locale::normalize(language) else { return };
        for (kind, keys) in kinds {
            for (field, key) in [(Field::Title, "title"), (Field::Body, "body")] {
                if keys.contains_key(key) {
                    let of_field = |(tag, of, part, _): &(String, TextKind, Field, Variant)| {
                        *tag == language && of == kind && *part == field
                    };
                    self.templates.retain(|template, _| !of_field(template));
                }
            }
        }
    }
}

/// A name or text of a user on one line, shortened, without characters that change how what follows is shown.
fn clean(text: &str, max_chars: usize) -> String {
    if is_blank(text) {
        return String::new();
    }
    let directions = |c: &char| {
        let is_embedding = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        !is_embedding && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}')
    };
    // Only what can be kept is copied: the text of a post may be long.
    let text: String = text.chars().filter(directions).take(max_chars * 16).collect();
    let line = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = line.collect::<Vec<_>>().join(" ");
    truncate::fit(&line, max_chars, |text| text.chars().count()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(kind: TextKind, locale: &str, count: u64) -> TextInput<'_> {
        TextInput { kind, locale: Some(locale), name: "Alice", count, text: "hello\nworld", private: false }
    }

    fn texts(toml: &str) -> Result<Texts, Vec<TextError>> {
        Texts::new(&TextsConfig { templates: toml::from_str(toml).unwrap(), ..TextsConfig::default() })
    }

    fn title(texts: &Texts, kind: TextKind, locale: &str, count: u64) -> String {
        texts.render(&input(kind, locale, count)).title
    }

    #[test]
    fn groups_are_counted_in_both_languages() {
        let texts = texts("").unwrap();
        let expected = [
            ("en", 1, "Alice liked your post"),
            ("en", 2, "Alice and 1 other liked your post"),
            ("en-GB", 13, "Alice and 12 others liked your post"),
            ("zh", 1, "Alice 赞了你的帖子"),
            ("zh-TW", 2, "Alice 和另外 1 人赞了你的帖子"),
            ("zh-Hant-HK", 13, "Alice 和另外 12 人赞了你的帖子"),
            ("fr", 1, "Alice liked your post"),
            ("!", 1, "Alice liked your post"),
        ];
        for (locale, count, expected) in expected {
            assert_eq!(title(&texts, TextKind::Like, locale, count), expected);
        }
        assert_eq!(texts.render(&input(TextKind::Reply, "en", 1)).body, "hello world");
        assert_eq!(title(&texts, TextKind::Digest, "zh-CN", 7), "你有 7 条新通知");
        for kind in TextKind::ALL {
            assert!(!title(&texts, kind, "zh", 3).contains(" and "), "{kind:?} is not translated");
        }
    }

    #[test]
    fn every_placeholder_of_every_kind_is_rendered() {
        let texts = texts("").unwrap();
        for (language, kind, key, template) in BUILTIN {
            let (field, variant) = Variant::parse(key).unwrap();
            let count = match variant {
                Variant::One => 1,
                Variant::Two => 2,
                Variant::Many => 13,
            };
            let NotificationText { title, body } =
                texts.render(&input(TextKind::parse(kind).unwrap(), language, count));
            let values = [
                ("{app}", "Feedline".to_owned()),
                ("{name}", "Alice".to_owned()),
                ("{count}", count.to_string()),
                ("{others}", (count - 1).to_string()),
                ("{text}", "hello world".to_owned()),
            ];
            let expected = values.iter().fold((*template).to_owned(), |text, (name, value)| text.replace(name, value));
            assert_eq!(if field == Field::Title { title } else { body }, expected, "{language}.{kind}.{key}");
        }
        // What a template of the configuration may contain, of each kind, in both languages and for any number.
        for (kind, language) in TextKind::ALL.iter().flat_map(|kind| [(kind, "en"), (kind, "zh")]) {
            for (key, variant, count) in
                [("", Variant::One, 1), ("_two", Variant::Two, 2), ("_many", Variant::Many, 13)]
            {
                let allowed = variant.placeholders(*kind);
                let template: String = allowed.iter().map(|it| format!("<{{{}}}>", it.name())).collect();
                let toml =
                    format!("[{language}.{}]\ntitle{key} = {template:?}\nbody{key} = {template:?}\n", kind.name());
                let configured =
                    Texts::new(&TextsConfig { templates: toml::from_str(&toml).unwrap(), ..TextsConfig::default() });
                let NotificationText { title, body } = configured.unwrap().render(&input(*kind, language, count));
                let value = |placeholder: &Placeholder| match placeholder {
                    Placeholder::App => "<Feedline>".to_owned(),
                    Placeholder::Name => "<Alice>".to_owned(),
                    Placeholder::Count => format!("<{count}>"),
                    Placeholder::Others => format!("<{}>", count - 1),
                    Placeholder::Text => "<hello world>".to_owned(),
                };
                let expected: String = allowed.iter().map(value).collect();
                assert_eq!((title, body), (expected.clone(), expected), "{language}.{}{key}", kind.name());
            }
        }
    }

    #[test]
    fn private_texts_tell_nothing() {
        let texts = texts("").unwrap();
        for kind in TextKind::ALL {
            for locale in ["en", "zh"] {
                let secret =
                    TextInput { name: "SECRETNAME", text: "SECRETTEXT", private: true, ..input(kind, locale, 5) };
                let NotificationText { title, body } = texts.render(&secret);
                assert!(!title.contains("SECRET") && !body.contains("SECRET"), "{title} {body}");
                assert!(kind == TextKind::Test || !format!("{title}{body}").contains('5'), "{title} {body}");
            }
        }
    }

    #[test]
    fn the_configuration_replaces_and_adds() {
        let texts = texts(
            "[en.like]\ntitle = \"{name} loves it\"\n[de.like]\ntitle = \"{name} gefällt das\"\nbody = \"\"\n\
             [zh-TW.follow]\ntitle = \"{name} 追蹤了你\"\n",
        );
        let texts = texts.unwrap();
        assert_eq!(title(&texts, TextKind::Like, "en", 9), "Alice loves it", "the old title for many is gone");
        assert_eq!(title(&texts, TextKind::Like, "de-AT", 1), "Alice gefällt das");
        assert_eq!(title(&texts, TextKind::Follow, "de-AT", 1), "Alice followed you", "de has no such text");
        assert_eq!(title(&texts, TextKind::Follow, "zh-TW", 1), "Alice 追蹤了你");
        assert_eq!(title(&texts, TextKind::Follow, "zh-CN", 1), "Alice 关注了你");
    }

    #[test]
    fn every_mistake_is_reported_with_its_place() {
        let errors = texts(
            "[en.like]\ntitle = \"{nmae}\"\nheading = \"x\"\n[en.poke]\ntitle = \"x\"\n[en.private]\n\
             body = \"{name}\"\n[en.mention]\ntitle = \"{name} and {others}\"\n[\"e!\".like]\ntitle = \"x\"\n",
        );
        let errors: Vec<String> = errors.unwrap_err().iter().map(ToString::to_string).collect();
        let begins = |text: &str| errors.iter().any(|error| error.starts_with(text));
        for place in ["en.like.title ", "en.like.heading ", "en.poke.title ", "en.private.body ", "en.mention.title "] {
            assert!(begins(&format!("push.texts.{place}")), "{place}: {errors:?}");
        }
        assert!(begins("push.texts.e!.like.title does not begin with a language tag"), "{errors:?}");
        let unknown = Texts::new(&TextsConfig { default_locale: "de".into(), ..TextsConfig::default() });
        assert!(unknown.unwrap_err().iter().any(|error| error.place == "de.like.title"));
    }

    #[test]
    fn names_cannot_change_what_follows() {
        let texts = texts("").unwrap();
        let spoof = TextInput { name: "\u{202e}ecilA\n\u{2067}", ..input(TextKind::Follow, "en", 1) };
        assert_eq!(texts.render(&spoof).title, "ecilA followed you");
        for control in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            let text = format!("a{control}b");
            let spoof = TextInput { name: &text, text: &text, ..input(TextKind::Reply, "en", 1) };
            let shown = texts.render(&spoof);
            assert_eq!((&*shown.title, &*shown.body), ("ab replied to you", "ab"), "{control:?}");
        }
        let hidden = TextInput { text: "\u{200b}\u{3164}", ..input(TextKind::Reply, "en", 1) };
        assert_eq!(texts.render(&hidden).body, "");
        let joined = TextInput { text: "👩\u{200d}💻 می\u{200c}خواهم", ..input(TextKind::Reply, "en", 1) };
        assert_eq!(texts.render(&joined).body, joined.text);
        let long = "👨‍👩‍👧‍👦".repeat(100);
        let long = TextInput { name: &long, ..input(TextKind::Follow, "en", 1) };
        assert!(texts.render(&long).title.starts_with(&format!("{}… followed", "👨‍👩‍👧‍👦".repeat(7))));
    }
}
