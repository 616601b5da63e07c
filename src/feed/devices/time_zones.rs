//! Time zones, by their names in the IANA database, or by their offsets. The database is compiled in: containers often
//! have none.

use jiff::tz::{Offset, TimeZone};

/// The greatest offset from UTC, in hours.
const MAX_HOURS: i32 = 18;

/// The zone of this name, in any case, or with this offset: `GMT+02:00`, `UTC-3`, `+0530`. `None`: it is not known.
pub(in crate::feed) fn zone(name: &str) -> Option<TimeZone> {
    let name = name.trim();
    TimeZone::get(name).ok().or_else(|| offset(name).map(TimeZone::fixed))
}

/// The offset that devices name whose time zone is a custom one.
fn offset(name: &str) -> Option<Offset> {
    let at = name.find(['+', '-'])?;
    let (prefix, rest) = name.split_at(at);
    if !["", "GMT", "UTC", "UT"].iter().any(|known| prefix.eq_ignore_ascii_case(known)) {
        return None;
    }
    let (sign, digits) = rest.split_at(1);
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() > 2 => digits.split_at_checked(digits.len() - 2)?,
        None => (digits, "00"),
    };
    let number = |text: &str, lengths: std::ops::RangeInclusive<usize>| {
        let is_number = lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse::<i32>().ok()).flatten()
    };
    let hours = number(hours, 1..=2).filter(|hours| *hours <= MAX_HOURS)?;
    let minutes = number(minutes, 2..=2).filter(|minutes| *minutes < 60)?;
    let seconds = (hours * 60 + minutes) * 60;
    Offset::from_seconds(if sign == "-" { -seconds } else { seconds }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_known_by_name_and_by_offset() {
        for name in ["UTC", "europe/berlin", "Asia/Kathmandu", "America/Argentina/Buenos_Aires", " GMT "] {
            assert!(zone(name).is_some(), "{name}");
        }
        let seconds = |name| offset(name).map(Offset::seconds);
        for (name, hours) in [("GMT+02:00", 2), ("utc-3", -3), ("+0900", 9), ("UTC+11", 11), ("GMT-0:00", 0)] {
            assert_eq!(seconds(name), Some(hours * 3_600), "{name}");
        }
        assert_eq!(seconds("GMT+5:45"), Some(20_700));
        for wrong in
            ["", "Mars/Olympus", "../etc/passwd", "Europe", "+", "GMT+", "GMT+24", "GMT+2:60", "GMT+2:0", "é+1"]
        {
            assert!(zone(wrong).is_none(), "{wrong}");
        }
    }
}
