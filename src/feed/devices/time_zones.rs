//! Time zones, by their names in the IANA database. The database is compiled in: containers often have none.

use jiff::tz::TimeZone;

/// Whether the database has a zone of this name, in any case.
pub(super) fn is_time_zone(name: &str) -> bool {
    TimeZone::get(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_known_by_name() {
        for name in ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Argentina/Buenos_Aires"] {
            assert!(is_time_zone(name), "{name}");
        }
        for wrong in ["", "Mars/Olympus", "../etc/passwd", "+02:00", "Europe"] {
            assert!(!is_time_zone(wrong), "{wrong}");
        }
    }
}
