//! Suggestions for unknown keys.

/// The known dotted key that is nearest to an unknown one: a few typing errors away, with the same name in another
/// section, or one of the two with more words behind it (`server.listen_address`).
pub(crate) fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let slips = (unknown.chars().count() / 4).clamp(1, 3);
    known
        .filter_map(|candidate| {
            let distance = distance(unknown, candidate);
            let moved = last(unknown) == last(candidate);
            let extended = has_more_words(unknown, candidate) || has_more_words(candidate, unknown);
            (distance <= slips || moved || extended).then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Whether a key is another key with words behind it: `server.listen_address` and `server.listen`.
fn has_more_words(long: &str, short: &str) -> bool {
    short.contains('.') && long.strip_prefix(short).is_some_and(|rest| rest.starts_with('_'))
}

/// The edit distance between two texts (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let exchange = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = exchange.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_suggested() {
        let known = ["server.listen", "server.drain", "client.channels", "timeline.length"];
        let nearest = |unknown| nearest(unknown, known.into_iter());
        assert_eq!(nearest("server.lisen"), Some("server.listen"));
        assert_eq!(nearest("sever.listen"), Some("server.listen"));
        assert_eq!(nearest("length"), Some("timeline.length"));
        assert_eq!(nearest("server.listen_adress"), Some("server.listen"));
        assert_eq!(nearest("server.colour"), None);
        assert_eq!(nearest("server.listener"), Some("server.listen"));
    }
}
