//! Texts with placeholders: `{name} liked your post`. `{{` and `}}` stand for braces.

/// A value that a template can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    /// The name of the application.
    App,
    /// The person who acted last.
    Name,
    /// The number of people or notifications.
    Count,
    /// The number of people other than the named one.
    Others,
    /// The beginning of the post or comment.
    Text,
}

/// A parsed text.
#[derive(Clone, Debug)]
pub(super) struct Template(Vec<TemplatePart>);

#[derive(Clone, Debug)]
enum TemplatePart {
    Literal(String),
    Value(Placeholder),
}

impl Placeholder {
    const ALL: [Self; 5] = [Self::App, Self::Name, Self::Count, Self::Others, Self::Text];

    /// Its name in templates.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Name => "name",
            Self::Count => "count",
            Self::Others => "others",
            Self::Text => "text",
        }
    }
}

impl Template {
    /// Parses a text that may contain the given placeholders.
    pub(super) fn parse(text: &str, allowed: &[Placeholder]) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            let end = rest.find('}').filter(|_| brace == "{");
            let end = end.ok_or_else(|| format!("has a single `{brace}`: write `{brace}{brace}` for a brace"))?;
            let placeholder = find(&rest[..end], allowed)?;
            parts.push(TemplatePart::Literal(std::mem::take(&mut literal)));
            parts.push(TemplatePart::Value(placeholder));
            rest = &rest[end + 1..];
        }
        literal.push_str(rest);
        parts.push(TemplatePart::Literal(literal));
        Ok(Self(parts))
    }

    /// The text with its values.
    pub(super) fn render(&self, value: impl Fn(Placeholder) -> String) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                TemplatePart::Literal(literal) => text.push_str(literal),
                TemplatePart::Value(placeholder) => text.push_str(&value(*placeholder)),
            }
        }
        text
    }
}

fn find(name: &str, allowed: &[Placeholder]) -> Result<Placeholder, String> {
    let known = Placeholder::ALL.into_iter().find(|placeholder| placeholder.name() == name);
    known.filter(|placeholder| allowed.contains(placeholder)).ok_or_else(|| {
        let allowed: Vec<String> = allowed.iter().map(|placeholder| format!("`{{{}}}`", placeholder.name())).collect();
        format!("has the placeholder `{{{name}}}`; it may have {}", allowed.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_and_braces() {
        let template = Template::parse("{{x}} {name} + {others}{{}}", &Placeholder::ALL).unwrap();
        let value = |placeholder: Placeholder| match placeholder {
            // A value is not parsed again.
            Placeholder::Name => "{app}".to_owned(),
            _ => "3".to_owned(),
        };
        assert_eq!(template.render(value), "{x} {app} + 3{}");
    }

    #[test]
    fn mistakes_are_errors() {
        let parse = |text| Template::parse(text, &[Placeholder::App, Placeholder::Count]).unwrap_err();
        assert_eq!(parse("{nmae}"), "has the placeholder `{nmae}`; it may have `{app}`, `{count}`");
        assert_eq!(parse("{name}"), "has the placeholder `{name}`; it may have `{app}`, `{count}`");
        for text in ["{app", "app}", "{", "}", "{{app}", "{}", "{ app }"] {
            assert!(Template::parse(text, &[Placeholder::App]).is_err(), "{text}");
        }
    }
}
