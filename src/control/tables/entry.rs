//! Entries as people write them.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// An entry as its type.
pub fn read<T: DeserializeOwned>(entry: &Value) -> Result<T, String> {
    T::deserialize(entry).map_err(|e| e.to_string())
}
