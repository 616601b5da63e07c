//! Which hosts endpoints of users may have (`push.endpoints_allow`, `push.endpoints_deny`).

/// Lists of hosts.
#[derive(Clone, Debug, Default)]
pub struct HostRules {
    /// Empty: all.
    allow: Vec<HostPattern>,
    deny: Vec<HostPattern>,
}

/// A host, or all below a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    /// `push.example.org`
    Host(String),
    /// `*.example.org`, as `.example.org`
    Below(String),
}

impl HostRules {
    /// Allows `allow` (empty: all) without `deny`. Each is a host, or `*.` and a domain for all hosts below it.
    pub fn new(allow: &[String], deny: &[String]) -> Self {
        let parse = |list: &[String]| list.iter().map(|text| HostPattern::parse(text)).collect();
        Self { allow: parse(allow), deny: parse(deny) }
    }

    /// Whether an endpoint may have a host.
    pub(super) fn permits(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_in = |list: &[HostPattern]| list.iter().any(|pattern| pattern.matches(&host));
        (self.allow.is_empty() || is_in(&self.allow)) && !is_in(&self.deny)
    }
}

impl HostPattern {
    fn parse(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        match text.strip_prefix('*') {
            Some(below) => Self::Below(below.to_owned()),
            None => Self::Host(text),
        }
    }

    fn matches(&self, host: &str) -> bool {
        match self {
            Self::Host(own) => own == host,
            Self::Below(domain) => host.len() > domain.len() && host.ends_with(domain.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deny_wins_and_an_empty_list_allows_all() {
        let list = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        assert!(HostRules::default().permits("push.example.org"));
        let rules = HostRules::new(&list(&["fcm.googleapis.com", "*.push.apple.com"]), &list(&["x.push.apple.com"]));
        for host in ["fcm.googleapis.com", "FCM.googleapis.com.", "web.push.apple.com"] {
            assert!(rules.permits(host), "{host}");
        }
        for host in ["push.apple.com", "evilpush.apple.com", "x.push.apple.com", "fcm.googleapis.com.evil.example"] {
            assert!(!rules.permits(host), "{host}");
        }
    }
}
