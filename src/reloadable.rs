//! A value that can be replaced while the server runs, by a reload of the configuration.

use std::sync::Arc;

use parking_lot::RwLock;

/// A value that a reload of the configuration replaces. Clones share it.
#[derive(Debug)]
pub struct Reloadable<T>(Arc<RwLock<Arc<T>>>);

impl<T> Reloadable<T> {
    /// Begins with a value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(value))))
    }

    /// The value in use. It stays as it is for the caller when it is replaced.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        *self.0.write() = Arc::new(value);
    }
}

impl<T> Clone for Reloadable<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
