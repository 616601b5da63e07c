//! Answers that depend on the base path alone.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::net::BasePath;

/// The maximal number of base paths for which something is kept. A deployment has one or two.
const MAX_KEPT: usize = 16;

/// A value for each base path.
pub(super) struct PerBasePath<T>(Mutex<HashMap<BasePath, T>>);

impl<T> Default for PerBasePath<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> PerBasePath<T> {
    pub(super) fn get(&self, base: &BasePath) -> Option<T> {
        self.0.lock().get(base).cloned()
    }

    pub(super) fn insert(&self, base: BasePath, value: T) {
        let mut kept = self.0.lock();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(base, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_for_few_base_paths() {
        let values = PerBasePath::default();
        for number in 0..1_000 {
            let base = BasePath::parse(&format!("/{number}")).unwrap();
            values.insert(base.clone(), number);
            assert_eq!(values.get(&base), Some(number));
        }
        assert!(values.0.lock().len() <= MAX_KEPT);
    }
}
