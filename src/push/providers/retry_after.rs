//! The `Retry-After` header (RFC 9110, section 10.2.3).

use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::model::Millis;

/// The maximum delay that a provider may demand. Messages expire after it at the latest.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The months in a date of HTTP.
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The delay that a response demands, in seconds or as a date, at most [`MAX_RETRY_AFTER`]. `None`: it demands none, or
/// the header is malformed.
pub(super) fn from_headers(headers: &HeaderMap, now: Millis) -> Option<Duration> {
    parse(headers.get(RETRY_AFTER)?.to_str().ok()?, now)
}

fn parse(value: &str, now: Millis) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that does not fit is longer than the maximum.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)).min(MAX_RETRY_AFTER));
    }
    let at = parse_date(value)?.checked_mul(1000)?;
    Some(Duration::from_millis(at.saturating_sub(now)).min(MAX_RETRY_AFTER))
}

/// Unix seconds of a date in the preferred form, for example `Sun, 06 Nov 1994 08:49:37 GMT`. Servers no longer send
/// the obsolete forms.
fn parse_date(value: &str) -> Option<u64> {
    let (_, date) = value.split_once(", ")?;
    let mut parts = date.split(' ');
    let day: u64 = parts.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year: u64 = parts.next()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut time = parts.next()?.split(':').map(|part| part.parse::<u64>().ok().filter(|part| *part <= 60));
    let hour = time.next()??;
    let minute = time.next()??;
    let second = time.next()??;
    if parts.next() != Some("GMT") || parts.next().is_some() || time.next().is_some() {
        return None;
    }
    Some(days_since_epoch(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that the leap day is the
/// last day of a year.
fn days_since_epoch(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    (year * 365 + year / 4 - year / 100 + year / 400 + day_of_year).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood() {
        let now = 784_111_777_000; // Sun, 06 Nov 1994 08:49:37 GMT
        assert_eq!(parse("120", now), Some(Duration::from_secs(120)));
        assert_eq!(parse(" 0 ", now), Some(Duration::ZERO));
        assert_eq!(parse("Sun, 06 Nov 1994 08:50:37 GMT", now), Some(Duration::from_secs(60)));
        assert_eq!(parse("Sun, 06 Nov 1994 08:00:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(parse_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(parse_date("Wed, 31 Dec 2025 23:59:59 GMT"), Some(1_767_225_599));
    }

    #[test]
    fn long_delays_are_capped_and_malformed_headers_ignored() {
        assert_eq!(parse("99999999999999999999999", 0), Some(MAX_RETRY_AFTER));
        assert_eq!(parse("Fri, 31 Dec 9999 23:59:59 GMT", 0), Some(MAX_RETRY_AFTER));
        for value in ["", "-1", "1.5", "soon", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994", "Sun, "] {
            assert_eq!(parse(value, 0), None, "{value:?}");
        }
    }
}
