//! Changes that end by themselves: a mute, a suspension and a filter `until` a time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::actions::Act;
use crate::filters::FilterChange;
use crate::model::{Edge, Model, USERS};
use crate::server::PATIENCE;
use crate::steps::Run;

/// How long such a change lasts: longer than the comparisons right after it.
pub(crate) const LASTING: Duration = Duration::from_secs(3);

/// The end of a change that is requested now, in Unix milliseconds.
pub(crate) fn end() -> u128 {
    (SystemTime::now() + LASTING).duration_since(UNIX_EPOCH).expect("a time after 1970").as_millis()
}

impl Act {
    /// Whether the change ends by itself.
    pub(crate) fn has_end(&self) -> bool {
        matches!(
            self,
            Self::MuteBriefly { .. }
                | Self::SuspendBriefly { .. }
                | Self::ChangeFilter { change: FilterChange::End, .. }
        )
    }

    /// Ends the change in the model.
    pub(crate) fn end(&self, model: &mut Model) {
        match self {
            Self::MuteBriefly { from, to } => model.set(Edge::Mute, from, to, false),
            Self::SuspendBriefly { user } => model.suspend(user, false),
            Self::ChangeFilter { id, change: FilterChange::End, .. } => {
                model.filters.get_mut(id).expect("a filter").has_ended = true;
            }
            _ => {}
        }
    }
}

impl Run {
    /// Waits until a change that was answered has ended.
    pub(crate) async fn outlast(&mut self, act: &Act) {
        tokio::time::sleep(LASTING + Duration::from_millis(100)).await;
        act.end(&mut self.model);
        match act {
            // A node ends mutes every few seconds.
            Act::MuteBriefly { from, to } => {
                for node in &self.world.nodes {
                    self.wait_for_person(node, from, to, PATIENCE).await;
                }
            }
            Act::SuspendBriefly { .. } => self.world.reload_readers(&USERS).await,
            // Nobody is informed of the end of a filter.
            _ => self.world.reload_readers(&[act.by()]).await,
        }
    }
}
