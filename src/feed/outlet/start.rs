//! Starts the tasks of the outlet.

use std::sync::Arc;

use super::Outlet;
use crate::feed::error::Result;
use crate::ledger::EventConsumer;

impl Outlet {
    /// Registers the consumers. Starts the work of the outlet until the process stops.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
        self.register().await?;
        if self.base.options.outlet.is_enabled() {
            self.base.runtime.supervise("outlet_publisher", self, |outlet| async move {
                outlet.base.events.consume(EventConsumer::Outlet, &outlet.quarantine, &*outlet).await;
            });
        }
        self.start_upkeep();
        if let Some(activity) = &self.activity {
            activity.start();
        }
        Ok(())
    }
}
