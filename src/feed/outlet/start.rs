//! Starts the tasks of the outlet.

use std::sync::Arc;

use super::Outlet;
use crate::feed::error::Result;

impl Outlet {
    /// Registers the consumers. Starts the work of the outlet until the process stops.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
        self.register().await?;
        if self.options.enabled {
            self.start_publisher();
        }
        self.start_upkeep();
        if let Some(activity) = &self.activity {
            activity.start();
        }
        Ok(())
    }
}
