//! What the switch that is scored says it dropped while a run went on.

use std::collections::BTreeMap;

use weir::api::client::{Client, ClientError};
use weir::api::view::{Drops, Ports};

/// Dropped packets of all ports, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchDrops(BTreeMap<String, u64>);

impl SwitchDrops {
    /// Those until now; `None` of a controller, which has no ports.
    ///
    /// # Errors
    /// If nobody answers.
    pub fn read(client: &Client) -> Result<Option<Self>, ClientError> {
        match client.get::<Ports>("/v1/ports") {
            Ok(ports) => Ok(Some(Self::of(&Drops::of(&ports)))),
            Err(ClientError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn of(drops: &Drops) -> Self {
        let mut sums = BTreeMap::new();
        for drop in &drops.drops {
            *sums.entry(drop.reason.clone()).or_default() += drop.packets;
        }
        Self(sums)
    }

    /// Those that came since `before`, without reasons that count 0.
    pub fn since(&self, before: &Self) -> BTreeMap<String, u64> {
        let more =
            self.0.iter().map(|(reason, n)| (reason, n.saturating_sub(before.0.get(reason).copied().unwrap_or(0))));
        more.filter(|(_, n)| *n > 0).map(|(reason, n)| (reason.clone(), n)).collect()
    }
}

/// Reasons that are rate limits of the switch.
const LIMITS: [&str; 2] = ["rx_limit", "tx_limit"];

/// What rate limits dropped.
pub fn limited(drops: &BTreeMap<String, u64>) -> u64 {
    LIMITS.iter().filter_map(|reason| drops.get(*reason)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir::api::view::Drop;
    use weir::pisa::DropReason;

    #[test]
    fn drops_are_those_of_the_run() {
        let drop = |port: &str, reason: &str, packets| Drop {
            port: port.into(),
            reason: reason.into(),
            packets,
            device: false,
        };
        let read = |drops: Vec<Drop>| SwitchDrops::of(&Drops { drops, ..Drops::default() });
        let before = read(vec![drop("a", "rx_limit", 5), drop("a", "tx_full", 7)]);
        let after = read(vec![
            drop("a", "rx_limit", 8),
            drop("b", "rx_limit", 2),
            drop("a", "tx_full", 7),
            drop("b", "tx_limit", 1),
        ]);
        let since = after.since(&before);
        assert_eq!(since, BTreeMap::from([("rx_limit".into(), 5), ("tx_limit".into(), 1)]));
        assert_eq!((limited(&since), limited(&BTreeMap::from([("tx_full".into(), 9)]))), (6, 0));
        assert_eq!([DropReason::RxLimit, DropReason::TxLimit].map(DropReason::name), LIMITS);
    }
}
