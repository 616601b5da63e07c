//! Fossil deltas: a target as copies of parts of a source, and new text between them.
//!
//! ```text
//! <size of the target>\n  then  <length>@<offset in the source>,  or  <length>:<text>  …  <checksum>;
//! ```
//!
//! Numbers are base 64 with the digits below. If the target is text in UTF-8, so is its delta: copies begin and end at
//! characters. The time is linear in the lengths of both, whatever they contain.

/// The digits of numbers.
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";

/// The bytes that are looked up at once: shorter copies are hardly shorter than what they stand for.
const BLOCK: usize = 8;

/// Every so many bytes, a block of the source is indexed.
const STRIDE: usize = 4;

/// The blocks with the same hash that are compared.
const MAX_CANDIDATES: usize = 8;

/// The bytes that a copy between two texts adds to a delta, besides its numbers.
const COPY_OVERHEAD: usize = 4;

/// The longest character in UTF-8, less its first byte.
const MAX_CONTINUATION: usize = 3;

/// The delta from a source to a target.
pub(super) fn fossil_delta(source: &[u8], target: &[u8]) -> Vec<u8> {
    let mut delta = Vec::with_capacity(64);
    append_number(&mut delta, target.len());
    delta.push(b'\n');
    let index = BlockIndex::new(source);
    let mut written = 0;
    let mut at = 0;
    while at + BLOCK <= target.len() {
        match index.longest(target, written, at) {
            Some(copy) => {
                append_text(&mut delta, &target[written..copy.target]);
                append_number(&mut delta, copy.length);
                delta.push(b'@');
                append_number(&mut delta, copy.source);
                delta.push(b',');
                written = copy.target + copy.length;
                at = written;
            }
            None => at += 1,
        }
    }
    append_text(&mut delta, &target[written..]);
    append_number(&mut delta, checksum(target) as usize);
    delta.push(b';');
    delta
}

/// A part of the target that is also in the source.
#[derive(Clone, Copy, Debug)]
struct Copy {
    source: usize,
    target: usize,
    length: usize,
}

impl Copy {
    /// Whether the delta is shorter with it than with the text.
    fn is_worthwhile(&self) -> bool {
        self.length > digits(self.length) + digits(self.source) + COPY_OVERHEAD
    }

    /// The largest part that begins and ends at characters of the target.
    fn at_characters(self, target: &[u8]) -> Self {
        let is_boundary = |at: usize| target.get(at).is_none_or(|byte| byte & 0xC0 != 0x80);
        let end = self.target + self.length;
        let cut_start = (0..=MAX_CONTINUATION).find(|cut| is_boundary(self.target + cut)).unwrap_or(0);
        let cut_end = (0..=MAX_CONTINUATION.min(end)).find(|cut| is_boundary(end - cut)).unwrap_or(0);
        let length = self.length.saturating_sub(cut_start + cut_end);
        Self { source: self.source + cut_start, target: self.target + cut_start, length }
    }
}

/// The blocks of a source, by hash.
struct BlockIndex<'a> {
    source: &'a [u8],
    /// By hash: the number of the last block, plus 1; 0: none.
    last: Vec<u32>,
    /// By block: the number of the block before it with the same hash, plus 1; 0: none.
    before: Vec<u32>,
}

impl<'a> BlockIndex<'a> {
    fn new(source: &'a [u8]) -> Self {
        let blocks = if source.len() < BLOCK { 0 } else { (source.len() - BLOCK) / STRIDE + 1 };
        // A publication is far shorter than 4 GiB. Of a longer source, the beginning is indexed.
        let blocks = blocks.min(u32::MAX as usize - 1);
        let mut index = Self { source, last: vec![0; (2 * blocks).next_power_of_two()], before: vec![0; blocks] };
        for block in 0..blocks {
            let hash = index.hash(word(source, block * STRIDE));
            index.before[block] = index.last[hash];
            index.last[hash] = block as u32 + 1;
        }
        index
    }

    fn hash(&self, word: u64) -> usize {
        let mixed = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize & (self.last.len() - 1)
    }

    /// The longest worthwhile copy that contains the block of the target at `at`, and begins at `from` or later.
    fn longest(&self, target: &[u8], from: usize, at: usize) -> Option<Copy> {
        let wanted = word(target, at);
        let mut best: Option<Copy> = None;
        let mut candidate = self.last[self.hash(wanted)];
        for _ in 0..MAX_CANDIDATES {
            let Some(block) = (candidate as usize).checked_sub(1) else { break };
            candidate = self.before[block];
            let start = block * STRIDE;
            if word(self.source, start) != wanted {
                continue;
            }
            let behind = &self.source[start + BLOCK..];
            let before = &self.source[..start];
            let forward = common(behind.iter().zip(&target[at + BLOCK..]));
            let backward = common(before.iter().rev().zip(target[from..at].iter().rev()));
            let length = backward + BLOCK + forward;
            if best.is_none_or(|best| length > best.length) {
                best = Some(Copy { source: start - backward, target: at - backward, length });
            }
        }
        best.map(|copy| copy.at_characters(target)).filter(Copy::is_worthwhile)
    }
}

/// The number of equal bytes at the beginning.
fn common<'a>(pairs: impl Iterator<Item = (&'a u8, &'a u8)>) -> usize {
    pairs.take_while(|(one, other)| one == other).count()
}

/// The block at an offset.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut block = [0; BLOCK];
    block.copy_from_slice(&bytes[at..at + BLOCK]);
    u64::from_le_bytes(block)
}

fn append_text(delta: &mut Vec<u8>, text: &[u8]) {
    if !text.is_empty() {
        append_number(delta, text.len());
        delta.push(b':');
        delta.extend_from_slice(text);
    }
}

fn append_number(delta: &mut Vec<u8>, number: usize) {
    for digit in (0..digits(number)).rev() {
        delta.push(DIGITS[number >> (6 * digit) & 63]);
    }
}

/// The number of digits of a number.
fn digits(number: usize) -> usize {
    (usize::BITS - number.leading_zeros()).div_ceil(6).max(1) as usize
}

/// The sum of the big-endian words of four bytes; missing bytes of the last word are 0.
fn checksum(bytes: &[u8]) -> u32 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_be_bytes(word)
    };
    bytes.chunks(4).map(word).fold(0, u32::wrapping_add)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    /// Applies a delta, as clients do.
    pub(crate) fn apply(source: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
        fn number(rest: &mut &[u8]) -> Option<usize> {
            let end = rest.iter().position(|byte| !DIGITS.contains(byte))?;
            let value = rest[..end]
                .iter()
                .fold(0, |value, byte| value << 6 | DIGITS.iter().position(|digit| digit == byte).expect("a digit"));
            *rest = &rest[end..];
            (end > 0).then_some(value)
        }
        let mut rest = delta;
        let size = number(&mut rest)?;
        rest = rest.strip_prefix(b"\n")?;
        let mut target = Vec::new();
        loop {
            let length = number(&mut rest)?;
            let (kind, after) = rest.split_first()?;
            rest = after;
            match kind {
                b'@' => {
                    let offset = number(&mut rest)?;
                    rest = rest.strip_prefix(b",")?;
                    target.extend_from_slice(source.get(offset..offset + length)?);
                }
                b':' => {
                    target.extend_from_slice(rest.get(..length)?);
                    rest = &rest[length..];
                }
                b';' => {
                    let is_whole = rest.is_empty() && target.len() == size && length == checksum(&target) as usize;
                    return is_whole.then_some(target);
                }
                _ => return None,
            }
        }
    }

    #[test]
    fn a_delta_has_the_form_of_the_format() {
        let delta = |source: &str, target: &str| String::from_utf8(fossil_delta(source.as_bytes(), target.as_bytes()));
        assert_eq!(delta("", "").as_deref(), Ok("0\n0;"));
        assert_eq!(delta("", "abcde").as_deref(), Ok("5\n5:abcde36ObD_;"));
        let source = r#"{"type":"counts","id":1234567890123456,"likes":10}"#;
        let target = r#"{"type":"counts","id":1234567890123456,"likes":11}"#;
        let expected = delta(source, target).expect("text");
        assert!(expected.starts_with("n\nl@0,2:1}"), "{expected}");
    }

    #[test]
    fn numbers_have_as_few_digits_as_they_need() {
        for (number, text) in [(0, "0"), (63, "~"), (64, "10"), (4_095, "~~"), (4_096, "100")] {
            let mut written = Vec::new();
            append_number(&mut written, number);
            assert_eq!((written.as_slice(), digits(number)), (text.as_bytes(), text.len()));
        }
    }

    #[test]
    fn hostile_input_takes_linear_time() {
        let size = 1 << 20;
        let same = vec![b'a'; size];
        let pairs: Vec<u8> = b"aaaaaaab".repeat(size / 8);
        let continuations = vec![0x80; size];
        let late: Vec<u8> = [vec![b'a'; size - 1], vec![b'b']].concat();
        let cases =
            [(&same, &pairs), (&pairs, &same), (&same, &same), (&continuations, &continuations), (&late, &same)];
        for (source, target) in cases {
            let started = Instant::now();
            let delta = fossil_delta(source, target);
            // A quadratic algorithm takes an hour.
            assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
            assert_eq!(apply(source, &delta).as_ref(), Some(target));
        }
    }

    /// A text, and the same text with some parts replaced, moved or removed.
    fn edited() -> impl Strategy<Value = (String, String)> {
        let words = || proptest::collection::vec("[a-c é€😀\"\\\\{}:,0-9]{0,12}", 0..40);
        (words(), words(), any::<u64>()).prop_map(|(one, other, mut choices)| {
            let source = one.concat();
            let mut target = String::new();
            for (at, word) in one.iter().enumerate() {
                choices = choices.rotate_left(2) ^ at as u64;
                match choices % 8 {
                    0 => target.push_str(other.get(at).map_or("", String::as_str)),
                    1 => {}
                    2 => target.insert_str(0, word),
                    _ => target.push_str(word),
                }
            }
            (source, target)
        })
    }

    proptest! {
        #[test]
        fn deltas_of_texts_are_texts_and_restore_the_target((source, target) in edited()) {
            let delta = fossil_delta(source.as_bytes(), target.as_bytes());
            prop_assert!(std::str::from_utf8(&delta).is_ok());
            prop_assert_eq!(apply(source.as_bytes(), &delta), Some(target.into_bytes()));
        }

        #[test]
        fn deltas_of_bytes_restore_the_target(
            source in proptest::collection::vec(0_u8..4, 0..300),
            target in proptest::collection::vec(0_u8..4, 0..300),
        ) {
            prop_assert_eq!(apply(&source, &fossil_delta(&source, &target)), Some(target));
        }

        #[test]
        fn deltas_of_any_bytes_restore_the_target(
            source in proptest::collection::vec(any::<u8>(), 0..200),
            target in proptest::collection::vec(any::<u8>(), 0..200),
            repeated in 0_usize..200,
        ) {
            let target = [&target[..], &source[repeated.min(source.len())..], &target[..]].concat();
            prop_assert_eq!(apply(&source, &fossil_delta(&source, &target)), Some(target));
        }
    }
}
