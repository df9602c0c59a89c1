//! An instance of a GPU in MIG mode.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One GPU instance of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GpuInstance")]
pub struct Instance {
    /// Its id on the GPU: NVML's, and the label `GPU_I_ID`.
    pub id: u32,
    /// Its profile, such as `1g.10gb`; null where series do not name it.
    pub profile: Option<String>,
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { id, profile } = self;
        match profile {
            Some(profile) => write!(f, "{id} ({profile})"),
            None => write!(f, "{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_shown_by_id_and_profile() {
        let shown = |profile: Option<&str>| Instance { id: 9, profile: profile.map(str::to_owned) }.to_string();
        assert_eq!([shown(Some("1g.10gb")), shown(None)], ["9 (1g.10gb)", "9"]);
    }
}
