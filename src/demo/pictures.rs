//! The pictures of the demonstration: `/demo/<scene>-<number>.svg`.

use super::scenes;

/// The path of the pictures, with a slash at the end.
pub const PICTURES: &str = "/demo/";

/// Numbers of one scene: 0 to 63. The bound keeps the number of addresses, and so of cached copies, small.
const MAX_NUMBER: u64 = 63;

/// Draws a picture, such as `ridge-3.svg`. The same name always has the same picture. `None` if no picture has the
/// name.
pub fn picture(name: &str) -> Option<String> {
    let (scene, number) = name.strip_suffix(".svg")?.split_once('-')?;
    let draw = scenes::named(scene)?;
    // One spelling for each number: `03` and `+3` are other names.
    let number = number.parse().ok().filter(|n: &u64| *n <= MAX_NUMBER && n.to_string() == number)?;
    Some(draw(&mut Random::new(scene, number)))
}

/// A deterministic generator (SplitMix64): pictures are the same in every build.
pub(super) struct Random(u64);

impl Random {
    fn new(scene: &str, number: u64) -> Self {
        let seed = scene
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (self.next() >> 11) as f64 / (1_u64 << 53) as f64 * (high - low)
    }

    /// One of the items; there is at least one.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[(self.next() % items.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_well_formed_and_stable() {
        for name in ["ridge-0", "sea-1", "city-2", "field-3", "aurora-4", "table-63"] {
            let file = format!("{name}.svg");
            let drawn = picture(&file).expect("the scene exists");
            assert_eq!(picture(&file).as_deref(), Some(&*drawn), "{name} is stable");
            assert!(drawn.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{name}");
            assert_eq!(drawn.matches('<').count(), drawn.matches('>').count(), "{name}");
            assert!(drawn.ends_with("</svg>") && drawn.len() < 20_000, "{name}: {} bytes", drawn.len());
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{name}");
        }
        assert_ne!(picture("ridge-1.svg"), picture("ridge-2.svg"));
    }

    #[test]
    fn other_names_have_no_picture() {
        for name in ["", "ridge-1", "ridge.svg", "ridge-64.svg", "ridge-01.svg", "ridge-+1.svg", "nothing-1.svg"] {
            assert_eq!(picture(name), None, "{name}");
        }
    }
}
