//! One file of the journal: records, each with its length and a checksum, so that partial records are detected.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut, Bytes};

/// When writes are flushed to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Before the acknowledgement: acknowledged entries survive a power failure.
    Always,
    /// When the operating system flushes them: acknowledged entries survive the end of the process.
    Never,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SegmentRecord {
    /// An entry: its number and its body.
    Entry(u64, Bytes),
    /// Entries below this number are no longer waiting.
    Trimmed(u64),
    /// The first record of a file whose entries do not follow those of the file before: numbers from this one up to the
    /// file's first were never assigned.
    Skipped(u64),
}

/// The body of a [`SegmentRecord::Skipped`]. The body of an entry is never equal to it.
const SKIPPED: &[u8] = &[0];

/// The content of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentContent {
    /// The complete records, in order.
    pub(super) records: Vec<SegmentRecord>,
    /// The number of bytes between complete records that belong to no record: the file is damaged.
    pub(super) damaged: usize,
    /// The number of bytes after the last complete record: a partial write before a crash.
    pub(super) torn: usize,
}

/// The length of the body, a checksum, the number. The body of an entry is never empty, that of a trim mark always.
const HEAD: usize = 4 + 4 + 8;

/// A file that records are appended to.
pub(super) struct Segment {
    file: File,
    /// The size of its complete records, in bytes.
    bytes: u64,
    /// A write failed halfway and could not be undone.
    broken: bool,
}

impl Segment {
    /// Creates the file whose first entry will have this number.
    pub(super) fn create(folder: &Path, first: u64) -> io::Result<Self> {
        // Records in an unfinished file of the same name were never acknowledged.
        match fs::remove_file(path(folder, first)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = open_own(&path(folder, first))?;
        sync_folder(folder)?;
        Ok(Self { file, bytes: 0, broken: false })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn broken(&self) -> bool {
        self.broken
    }

    /// Writes entries, all or none.
    pub(super) fn append<'a>(
        &mut self,
        entries: impl Iterator<Item = (u64, &'a Bytes)>,
        flush: Flush,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        entries.for_each(|(number, body)| encode(&mut buffer, number, body));
        self.write(&buffer, flush)
    }

    /// Records that entries below this number are processed. A crash may lose the record: the entries are then read
    /// again.
    pub(super) fn note_trimmed(&mut self, before: u64) -> io::Result<()> {
        if self.broken {
            return Ok(());
        }
        let mut buffer = Vec::new();
        encode(&mut buffer, before, &[]);
        self.write(&buffer, Flush::Never)
    }

    /// Records, as the first record, that the numbers from this one up to the file's first are not used.
    pub(super) fn note_skipped(&mut self, from: u64) -> io::Result<()> {
        let mut buffer = Vec::new();
        encode(&mut buffer, from, SKIPPED);
        self.write(&buffer, Flush::Never)
    }

    fn write(&mut self, buffer: &[u8], flush: Flush) -> io::Result<()> {
        let written = self.file.write_all(buffer).and_then(|()| match flush {
            Flush::Always => self.file.sync_data(),
            Flush::Never => Ok(()),
        });
        match written {
            Ok(()) => self.bytes += buffer.len() as u64,
            // A reader stops at the first partial record, so no record may follow one.
            Err(_) => self.broken = self.file.set_len(self.bytes).is_err(),
        }
        written
    }
}

fn encode(buffer: &mut Vec<u8>, number: u64, body: &[u8]) {
    let length = u32::try_from(8 + body.len()).unwrap_or(u32::MAX);
    let mut sum = Checksum::new();
    sum.add(&number.to_le_bytes());
    sum.add(body);
    buffer.put_u32_le(length);
    buffer.put_u32_le(sum.value());
    buffer.put_u64_le(number);
    buffer.put_slice(body);
}

/// Reads a file. Complete records after a damaged section are found by their checksums.
pub(super) fn read(folder: &Path, first: u64) -> io::Result<SegmentContent> {
    let mut rest = Bytes::from(fs::read(path(folder, first))?);
    let mut content = SegmentContent::default();
    let mut skipped = 0;
    while !rest.is_empty() {
        match decode(&mut rest) {
            Some(record) => {
                content.records.push(record);
                content.damaged += std::mem::take(&mut skipped);
            }
            None => {
                rest.advance(1);
                skipped += 1;
            }
        }
    }
    content.torn = skipped;
    Ok(content)
}

/// Keeps a damaged file for inspection; it would otherwise be removed once it has no waiting entries.
pub(super) fn keep_damaged(folder: &Path, first: u64) -> io::Result<PathBuf> {
    let from = path(folder, first);
    let to = folder.join(format!("{first:020}.damaged"));
    fs::copy(from, &to)?;
    Ok(to)
}

fn decode(rest: &mut Bytes) -> Option<SegmentRecord> {
    let mut head = rest.get(..HEAD)?;
    let length = head.get_u32_le() as usize;
    let sum = head.get_u32_le();
    let number = head.get_u64_le();
    let end = HEAD.checked_add(length.checked_sub(8)?)?;
    let content = rest.get(8..end)?;
    let mut check = Checksum::new();
    check.add(content);
    if check.value() != sum {
        return None;
    }
    let body = rest.split_to(end).slice(HEAD..);
    Some(match &body[..] {
        [] => SegmentRecord::Trimmed(number),
        SKIPPED => SegmentRecord::Skipped(number),
        _ => SegmentRecord::Entry(number, body),
    })
}

/// The first entries of all files, in order.
pub(super) fn list(folder: &Path) -> io::Result<VecDeque<u64>> {
    let mut firsts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        firsts.extend(name.to_str().and_then(|name| name.strip_suffix(".log")?.parse::<u64>().ok()));
    }
    firsts.sort_unstable();
    Ok(firsts.into())
}

pub(super) fn remove(folder: &Path, first: u64) -> io::Result<()> {
    fs::remove_file(path(folder, first))
}

/// Flushes created, renamed and removed files of a folder, so that the changes survive a power failure.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Opens a file for appending, and creates it if missing. Only its owner has access.
pub(super) fn open_own(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn path(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:020}.log"))
}

/// CRC-32, as in gzip and PNG.
struct Checksum(u32);

impl Checksum {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let mut value = at as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { (value >> 1) ^ 0xEDB8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[at] = value;
            at += 1;
        }
        table
    };

    fn new() -> Self {
        Self(u32::MAX)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 >> 8) ^ Self::TABLE[usize::from(self.0 as u8 ^ byte)];
        }
    }

    fn value(&self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        let mut sum = Checksum::new();
        sum.add(b"1234");
        sum.add(b"56789");
        assert_eq!(sum.value(), 0xCBF4_3926);
    }

    #[test]
    fn truncated_files_yield_their_whole_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut segment = Segment::create(folder.path(), 5).expect("a file");
        let bodies = [Bytes::from_static(b"one"), Bytes::from_static(b"another")];
        segment.append((5..).zip(&bodies), Flush::Always).expect("to write");
        segment.note_trimmed(6).expect("to write");
        let whole = fs::read(path(folder.path(), 5)).expect("the file");
        let all = [
            SegmentRecord::Entry(5, bodies[0].clone()),
            SegmentRecord::Entry(6, bodies[1].clone()),
            SegmentRecord::Trimmed(6),
        ];
        let ends = [0, HEAD + 3, 2 * HEAD + 10, 3 * HEAD + 10];
        for cut in 0..=whole.len() {
            fs::write(path(folder.path(), 5), &whole[..cut]).expect("to write");
            let have = ends.iter().rposition(|end| *end <= cut).expect("at least none");
            let content = read(folder.path(), 5).expect("to read");
            assert_eq!(content.records, all[..have], "cut at {cut}");
            assert_eq!((content.damaged, content.torn), (0, cut - ends[have]), "cut at {cut}");
        }
        for flipped in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[flipped] ^= 1;
            fs::write(path(folder.path(), 5), &damaged).expect("to write");
            let hit = ends.iter().rposition(|end| *end <= flipped).expect("at least none");
            let whole: Vec<SegmentRecord> = (0..all.len()).filter(|at| *at != hit).map(|at| all[at].clone()).collect();
            let content = read(folder.path(), 5).expect("to read");
            assert_eq!(content.records, whole, "bit flipped at {flipped}");
            let bytes = ends[hit + 1] - ends[hit];
            let (damaged, torn) = if hit + 1 == all.len() { (0, bytes) } else { (bytes, 0) };
            assert_eq!((content.damaged, content.torn), (damaged, torn), "bit flipped at {flipped}");
        }
    }
}
