//! Writes frames to a stream without a write buffer.
//!
//! All pending frames are passed to the kernel in one vectored write: there is no copy per socket, and no buffer that
//! keeps the size of its largest burst.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use crate::gateway::wire::framed::Framed;
use crate::net::ClientStream;
use smallvec::SmallVec;

/// The maximum number of buffers in one vectored write.
const SLICES: usize = 64;

/// How far the writing of frames has come.
#[derive(Debug, Default)]
pub(crate) struct FrameWriter {
    /// The number of bytes of the first pending frame that were written already.
    written: usize,
}

impl FrameWriter {
    /// Whether the first pending frame is partly written.
    pub(crate) fn is_inside_frame(&self) -> bool {
        self.written > 0
    }

    /// Writes as many `frames` as the kernel accepts without blocking, and removes those that were written.
    pub(crate) fn try_write(&mut self, stream: &mut ClientStream, frames: &mut VecDeque<Framed>) -> io::Result<()> {
        while !frames.is_empty() {
            match self.write_once(stream, frames) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.take_off(frames, bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_once(&self, stream: &mut ClientStream, frames: &VecDeque<Framed>) -> io::Result<usize> {
        let mut slices: SmallVec<[IoSlice<'_>; SLICES]> =
            frames.iter().take(SLICES).map(|frame| IoSlice::new(frame.bytes())).collect();
        slices[0].advance(self.written);
        stream.try_write(&slices)
    }

    fn take_off(&mut self, frames: &mut VecDeque<Framed>, bytes: usize) {
        self.written += bytes;
        while let Some(first) = frames.front().map(Framed::len)
            && self.written >= first
        {
            self.written -= first;
            frames.pop_front();
        }
    }
}
