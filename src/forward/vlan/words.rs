//! VLANs as people write them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{PortVlans, VlanSet};
use crate::forward::text::{Wrong, wrong};
use crate::text::json_schema;

/// VLAN numbers: `[10, 20]`, `10`, or `"10,20-30"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanList(Vec<RangeInclusive<u16>>);

const RIGHT: &str = "VLAN numbers from 1 to 4094 such as \"10,20-30\" or [10, 20]";

impl VlanList {
    /// For the JSON Schema; the numbers' range is not in it.
    const PATTERN: &str = r"^\s*[0-9]+\s*(-\s*[0-9]+\s*)?(,\s*[0-9]+\s*(-\s*[0-9]+\s*)?)*$";

    pub fn set(&self) -> VlanSet {
        VlanSet::new(self.0.iter().cloned().flatten())
    }
}

impl FromStr for VlanList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let end = |text: &str| text.trim().parse::<u16>().ok().filter(|vid| (1..=4094).contains(vid));
            Some(end(low)?..=end(high)?).filter(|range| !range.is_empty())
        };
        text.split(',').map(range).collect::<Option<_>>().map(Self).ok_or_else(|| format!("{text}: {RIGHT}"))
    }
}

impl fmt::Display for VlanList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            match (range.start(), range.end()) {
                (low, high) if low == high => write!(f, "{low}")?,
                (low, high) => write!(f, "{low}-{high}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for VlanList {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VlanList {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> serde::de::Visitor<'de> for Words {
            type Value = VlanList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(RIGHT)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<VlanList, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, vid: u64) -> Result<VlanList, E> {
                self.visit_str(&vid.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, vid: i64) -> Result<VlanList, E> {
                self.visit_str(&vid.to_string())
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<VlanList, A::Error> {
                let mut vlans = Vec::new();
                while let Some(VlanList(part)) = list.next_element()? {
                    vlans.extend(part);
                }
                if vlans.is_empty() { Err(serde::de::Error::custom(RIGHT)) } else { Ok(VlanList(vlans)) }
            }
        }
        deserializer.deserialize_any(Words)
    }
}

json_schema!(VlanList, {
    "type": ["string", "integer", "array"],
    "pattern": VlanList::PATTERN,
    "minimum": 1,
    "maximum": 4094,
    "items": {"type": ["string", "integer"], "pattern": VlanList::PATTERN, "minimum": 1, "maximum": 4094},
    "minItems": 1,
    "description": "VLAN numbers: [10, 20] or 10,20-30",
});

impl PortVlans {
    /// From a port's keys.
    pub fn of(vlan: Option<u16>, trunk: Option<&VlanList>, qinq: Option<u16>) -> Result<Self, Wrong> {
        for (key, vid) in [("vlan", vlan), ("qinq", qinq)] {
            if let Some(vid) = vid.filter(|vid| !(1..=4094).contains(vid)) {
                return Err(wrong(key, vid, "a whole number from 1 to 4094"));
            }
        }
        match (vlan, trunk, qinq) {
            (None, None, None) => Ok(Self::Every),
            (None, None, Some(service)) => Ok(Self::Tunnel(service)),
            (_, _, Some(service)) => Err(wrong("qinq", service, "without vlan and trunk: all frames are its payload")),
            (Some(vid), Some(list), None) if list.set().contains(vid) => {
                Err(wrong("trunk", list, format!("without {vid}: vlan = {vid} sends it untagged")))
            }
            (untagged, trunk, None) => {
                let tagged = trunk.map_or_else(|| VlanSet::new([]), VlanList::set);
                Ok(Self::Of { untagged, tagged })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_go_round() {
        let list = |json| serde_json::from_value::<VlanList>(json).map_err(|e| e.to_string());
        assert_eq!(list(serde_json::json!([10, 20, "30-32"])).unwrap().to_string(), "10,20,30-32");
        assert_eq!(list(serde_json::json!("10, 20-30")).unwrap().to_string(), "10,20-30");
        assert!(list(serde_json::json!(7)).unwrap().set().contains(7));
        for wrong in [serde_json::json!("20-10"), 0.into(), 4095.into(), serde_json::json!([]), "".into(), true.into()]
        {
            assert!(list(wrong.clone()).unwrap_err().contains("VLAN numbers from 1 to 4094"), "{wrong}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let list: VlanList = "10,20".parse().unwrap();
        let wrong = |vlan, trunk, qinq| PortVlans::of(vlan, trunk, qinq).unwrap_err().to_string();
        assert_eq!(wrong(Some(0), None, None), "vlan = 0: a whole number from 1 to 4094");
        assert_eq!(wrong(Some(5), None, Some(6)), "qinq = 6: without vlan and trunk: all frames are its payload");
        assert_eq!(wrong(Some(10), Some(&list), None), "trunk = 10,20: without 10: vlan = 10 sends it untagged");
        assert_eq!(PortVlans::of(None, None, Some(9)), Ok(PortVlans::Tunnel(9)));
    }
}
