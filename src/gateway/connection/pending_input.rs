//! What a connection has received and not handled yet.

use std::collections::VecDeque;

use crate::gateway::wire::probe::Probe;
use crate::protocol::Command;

/// The probes that one frame of the client answers. A client that gives no sign is closed soon, and those above are not
/// answered.
const MAX_PROBES: usize = 256;

/// Commands of the last frame, and probes. Most clients send nothing for hours: without either, it has no memory.
#[derive(Debug, Default)]
pub(crate) struct PendingInput {
    pending: Option<Box<Pending>>,
}

#[derive(Debug, Default)]
struct Pending {
    /// Commands that have not run yet.
    commands: VecDeque<Command>,
    /// Answered by the next frame of the client.
    probes: Vec<Probe>,
}

impl PendingInput {
    /// Adds the commands of a frame.
    pub(crate) fn extend(&mut self, commands: Vec<Command>) {
        if !commands.is_empty() {
            self.pending.get_or_insert_default().commands.extend(commands);
        }
    }

    /// Whether commands wait.
    pub(crate) fn has_commands(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| !pending.commands.is_empty())
    }

    /// The next command.
    pub(crate) fn next_command(&mut self) -> Option<Command> {
        let command = self.pending.as_mut()?.commands.pop_front();
        self.release_if_empty();
        command
    }

    /// Drops the commands that wait.
    pub(crate) fn clear_commands(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.commands.clear();
        }
        self.release_if_empty();
    }

    /// Adds a probe, which the client's next frame answers.
    pub(crate) fn expect_answer(&mut self, probe: Probe) {
        let probes = &mut self.pending.get_or_insert_default().probes;
        if probes.len() < MAX_PROBES {
            probes.push(probe);
        }
    }

    /// The client has sent a frame, which answers all probes.
    pub(crate) fn answer_probes(&mut self) {
        let Some(pending) = &mut self.pending else { return };
        std::mem::take(&mut pending.probes).into_iter().for_each(Probe::answered);
        self.release_if_empty();
    }

    fn release_if_empty(&mut self) {
        self.pending.take_if(|pending| pending.commands.is_empty() && pending.probes.is_empty());
    }
}
