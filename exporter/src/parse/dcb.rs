//! What `dcb -j` of iproute2 prints of a NIC (dcb-pfc(8), dcb-app(8)), and the traffic class of an RDMA device, which
//! NVIDIA's drivers show.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{ParseError, trim};

/// `dcb -j pfc show dev NIC`: the priorities that have priority flow control.
pub fn pfc(text: &str) -> Result<BTreeSet<u8>, ParseError> {
    #[derive(Deserialize)]
    struct Pfc {
        prio_pfc: Vec<bool>,
    }
    let Pfc { prio_pfc } = object(text, "an object with prio_pfc, an array of true and false")?;
    Ok((0..).zip(prio_pfc).filter(|(_, is_on)| *is_on).map(|(priority, _)| priority).collect())
}

/// `dcb -j app show dev NIC`: the priority of each DSCP that has one. Where a DSCP has several, the highest counts. Without
/// any, the NIC goes by the priority in the VLAN tag.
pub fn dscp_priorities(text: &str) -> Result<BTreeMap<u8, u8>, ParseError> {
    #[derive(Deserialize)]
    struct App {
        #[serde(default)]
        dscp_prio: Vec<(u8, u8)>,
    }
    let App { mut dscp_prio } = object(text, "an object with dscp_prio, pairs of DSCP and priority")?;
    dscp_prio.sort_unstable();
    Ok(dscp_prio.into_iter().collect())
}

fn object<T: DeserializeOwned>(text: &str, expected: &'static str) -> Result<T, ParseError> {
    serde_json::from_str(text).map_err(|error| ParseError::new(error.line().max(1), expected, text))
}

/// `/sys/class/infiniband/DEVICE/tc/1/traffic_class`: the traffic class that all connections have; `None` where each has its
/// own. Rules for single peers may follow.
pub fn traffic_class(text: &str) -> Result<Option<u8>, ParseError> {
    let class = text.lines().next().and_then(|line| line.strip_prefix("Global tclass="));
    class
        .map(|class| trim(class).parse().map_err(|_| ParseError::new(1, "a traffic class below 256", class)))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn priorities_with_flow_control() {
        let text = r#"{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,true,false,false,false,true]}"#;
        assert_eq!(pfc(text).unwrap(), BTreeSet::from([3, 7]));
        assert!(pfc(r#"{"prio_pfc":[]}"#).unwrap().is_empty());
        assert_eq!(pfc("{}").unwrap_err().line, 1);
        assert!(pfc("").is_err());
    }

    #[test]
    fn priorities_of_dscps() {
        let text = r#"{"default_prio":[0],"dscp_prio":[[26,3],[48,7],[48,6]]}"#;
        assert_eq!(dscp_priorities(text).unwrap(), BTreeMap::from([(26, 3), (48, 7)]));
        assert!(dscp_priorities("{ }").unwrap().is_empty(), "it goes by the VLAN tag");
        assert!(dscp_priorities(r#"{"dscp_prio":[[256,3]]}"#).is_err());
    }

    #[test]
    fn traffic_classes() {
        assert_eq!(traffic_class("Global tclass=106\ntclass=32 src_ip=1.2.3.4\n"), Ok(Some(106)));
        assert_eq!(traffic_class(""), Ok(None));
        assert_eq!(traffic_class("tclass=32 src_ip=1.2.3.4\n"), Ok(None));
        assert_eq!(traffic_class("Global tclass=300\n").unwrap_err().found, "300");
    }

    proptest! {
        #[test]
        fn never_panics(text in r#"(\{|\}|\[|\]|,|"prio_pfc":|"dscp_prio":|true|false|Global tclass=|[0-9]{1,5}|\n|\PC)*"#) {
            let _ = (pfc(&text), dscp_priorities(&text), traffic_class(&text));
        }
    }
}
