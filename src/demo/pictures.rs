//! The pictures of the demonstration: `/demo/<scene>-<number>.svg`.

use super::random::Random;
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
