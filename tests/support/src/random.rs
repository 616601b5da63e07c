//! Random choices that a seed reproduces.

/// SplitMix64. The same seed makes the same choices, independent of library versions.
pub struct SeededRandom(u64);

impl SeededRandom {
    /// The seed in `FEEDLINE_SEED`, or a random one.
    pub fn seed() -> u64 {
        let given = std::env::var("FEEDLINE_SEED").ok();
        given.map_or_else(rand::random, |seed| seed.parse().expect("FEEDLINE_SEED is a number"))
    }

    /// The number of repetitions: `FEEDLINE_ROUNDS`, or the default.
    pub fn rounds(default: usize) -> usize {
        let given = std::env::var("FEEDLINE_ROUNDS").ok();
        given.map_or(default, |rounds| rounds.parse().expect("FEEDLINE_ROUNDS is a number"))
    }

    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number from 0 to `end - 1`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).expect("below a usize")
    }

    /// Picks one element. The slice must not be empty.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
