//! Quiet hours: parts of the day without pushes, in the time zone of the user or of the device.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use crate::feed::devices::time_zones;
use crate::model::{Millis, QuietHours, TimeOfDay};

/// When the quiet hours end that `now` is in, in Unix milliseconds; `None` outside of them.
pub(super) fn quiet_until(quiet: &QuietHours, device_zone: Option<&str>, now: Millis) -> Option<Millis> {
    let zone = quiet.time_zone.as_deref().or(device_zone);
    let zone = zone.and_then(time_zones::zone).unwrap_or(TimeZone::UTC);
    let local = Timestamp::from_millisecond(i64::try_from(now).ok()?).ok()?.to_zoned(zone.clone());
    let minutes = u16::try_from(i32::from(local.hour()) * 60 + i32::from(local.minute())).ok()?;
    let from = quiet.from;
    let to = quiet.to;
    let time = TimeOfDay { minutes };
    let (is_quiet, ends_tomorrow) = match from < to {
        true => (from <= time && time < to, false),
        false => (from <= time || time < to, from <= time),
    };
    if !is_quiet {
        return None;
    }
    let date = if ends_tomorrow { local.date().checked_add(1.day()).ok()? } else { local.date() };
    let hour = i8::try_from(to.minutes / 60).ok()?;
    let minute = i8::try_from(to.minutes % 60).ok()?;
    // A time that a change of the clocks skips, or repeats, is the one that jiff takes for it.
    let end = date.at(hour, minute, 0, 0).to_zoned(zone).ok()?;
    u64::try_from(end.timestamp().as_millisecond()).ok().filter(|end| *end > now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Millis {
        let time: Timestamp = text.parse().expect("a time");
        time.as_millisecond().cast_unsigned()
    }

    fn quiet(from: &str, to: &str, zone: Option<&str>) -> QuietHours {
        let time = |text| TimeOfDay::parse(text).expect("a time of the day");
        QuietHours { from: time(from), to: time(to), time_zone: zone.map(str::to_owned) }
    }

    #[test]
    fn hours_may_pass_midnight() {
        let night = quiet("22:30", "07:00", None);
        for (now, end) in [
            ("2026-03-01T22:29:59Z", None),
            ("2026-03-01T22:30:00Z", Some("2026-03-02T07:00:00Z")),
            ("2026-03-02T00:00:00Z", Some("2026-03-02T07:00:00Z")),
            ("2026-03-02T06:59:59Z", Some("2026-03-02T07:00:00Z")),
            ("2026-03-02T07:00:00Z", None),
        ] {
            assert_eq!(quiet_until(&night, None, at(now)), end.map(at), "{now}");
        }
        let noon = quiet("12:00", "13:00", None);
        assert_eq!(quiet_until(&noon, None, at("2026-03-01T12:30:00Z")), Some(at("2026-03-01T13:00:00Z")));
        assert_eq!(quiet_until(&noon, None, at("2026-03-01T13:00:00Z")), None);
    }

    #[test]
    fn hours_follow_daylight_saving_time() {
        let night = quiet("22:00", "07:00", Some("Europe/Berlin"));
        // The clocks move from 2:00 to 3:00 on 29 March 2026.
        assert_eq!(quiet_until(&night, None, at("2026-03-28T21:30:00Z")), Some(at("2026-03-29T05:00:00Z")));
        assert_eq!(quiet_until(&night, None, at("2026-03-27T21:30:00Z")), Some(at("2026-03-28T06:00:00Z")));
        assert_eq!(quiet_until(&night, None, at("2026-03-27T20:30:00Z")), None);
    }

    #[test]
    fn the_zone_of_the_user_precedes_that_of_the_device() {
        let now = at("2026-03-01T23:00:00Z");
        let night = |zone| quiet("22:00", "07:00", zone);
        assert!(quiet_until(&night(None), None, now).is_some());
        assert!(quiet_until(&night(None), Some("Asia/Tokyo"), now).is_none());
        assert!(quiet_until(&night(None), Some("GMT+09:00"), now).is_none());
        assert!(quiet_until(&night(Some("UTC")), Some("Asia/Tokyo"), now).is_some());
        assert!(quiet_until(&night(None), Some("no such zone"), now).is_some(), "UTC");
    }
}
